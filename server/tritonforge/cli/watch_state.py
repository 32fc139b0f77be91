"""What a kernel's profile depends on, in one value: when it is the same after a save, nothing has to be done."""

from __future__ import annotations

import ast
import hashlib
import warnings
from pathlib import Path

from tritonforge.analysis.states import states
from tritonforge.analysis.text import decode_source
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.workload.gather import FileWorkload


def state_of(workload: FileWorkload, kernel: Kernel) -> str:
    """Return a hash of the kernel, its launch sites, its known calls, and the functions and imports that these use.

    Where no launch is known that still holds, the texts that could be run count as well: an edit of them may mend that.
    """
    parts: list[object] = [kernel.code_hash, sorted(site.site_hash for site in kernel.launch_sites)]
    try:
        known = workload.known(kernel)
        used = known or workload.known(kernel, stale=True)
    except UsageError as error:  # a spec that cannot be read
        return _digest([*parts, str(error)])
    calls = used.calls if used is not None else ()
    parts += [known is not None, [call.id for call in calls], workload.pinned(kernel), _hosts(workload, calls)]
    if known is None and workload.allow_run:
        parts += [workload.text, *(workload.read(file) for file in sorted(workload.run_too))]
    if workload.index is not None and any(helper.range is None for helper in kernel.helpers):
        file = workload.analysis.file
        parts += [(one, _normal(workload.read(one))) for one in workload.index.imports_of(file, workload.text)]
    return _digest(parts)


def text_digest(path: Path) -> str:
    """Return a hash of what a file says, "" when it is gone, or a pipe or device, which may never end."""
    if not path.is_file():
        return ""
    try:
        return _digest([decode_source(path.read_bytes())[0]])
    except OSError:
        return ""


def _hosts(workload: FileWorkload, calls: tuple[Call, ...]) -> list[object]:
    """Return the state of the functions that are called, by file."""
    wanted: dict[str, set[str]] = {}
    for call in calls:
        if call.kernel_launch is None:
            wanted.setdefault(call.file, set()).add(call.function)
    texts = {file: workload.read(file) for file in sorted(wanted)}
    return [
        (file, sorted(states(text, wanted[file]).items()) if text is not None else "gone")
        for file, text in texts.items()
    ]


def _normal(text: str | None) -> str | None:
    """Return `text` without comments and layout, where it can be parsed."""
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.unparse(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return text


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
