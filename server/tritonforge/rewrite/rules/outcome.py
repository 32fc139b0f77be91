"""Reading an edited file again, to see that a launch really has the values it was meant to get."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tritonforge.analysis import analyze
from tritonforge.analysis.memo import Memo
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.rules.launch_values import LaunchNode, Refused, Settings, kernel_function, launches_in
from tritonforge.rewrite.scopes import Scopes
from tritonforge.rewrite.text import Source


def check_outcome(
    source: Source,
    kernel: Kernel,
    texts: Mapping[str, str],
    edits: tuple[Edit, ...],
    *,
    chosen: Sequence[int],
    wanted: Mapping[str, int],
    running: Mapping[str, int],
    seen: Mapping[str, int] | None = None,
) -> None:
    """Apply `edits` and find `wanted` at the launches `chosen` (indexes among all launches of the file `source`).

    `texts` are those of all files before. `running` is what a recorded launch had: a value that the source does not
    show may stay when it was right already. `seen` are all integers that it got.

    Raises:
        Refused: the edits do not fit together, or the rules or the analysis read other values off the result.
    """
    now = dict(texts)
    try:
        for file in {edit.file for edit in edits}:
            now[file] = apply_edits(texts[file], tuple(e for e in edits if e.file == file))
        after = Source(source.file, now[source.file])
        own = after if kernel.file == source.file else Source(kernel.file, now[kernel.file])
    except (ValueError, SyntaxError) as error:
        raise Refused(f"the edits do not fit together ({error})") from error
    same = [k for k in _kernels(kernel.file, texts[kernel.file]) if k.name == kernel.name]
    found = [k for k in _analysed(own.text, kernel.file) if k.name == kernel.name]
    index = next((i for i, k in enumerate(same) if k.range == kernel.range), None)
    if index is None or len(found) != len(same):
        raise Refused(f"{kernel.file} has changed since it was analysed")
    edited = with_all_sites(found[index], now)
    scopes = Scopes(after.tree)
    function = None if own.file == after.file else kernel_function(Scopes(own.tree), edited)
    settings = Settings(after, scopes, edited, function)
    launches = launches_in(scopes)
    after_edit = {**seen, **wanted} if seen else {}
    for launch in chosen:
        for name, value in wanted.items():
            setting = settings.of(launches[launch], name, after_edit)
            if setting.place == "autotune":
                _check_config(edited, wanted)
                return
            kept = setting.place in {"absent", "fixed"} and running.get(name, setting.value) == value
            right = setting.value == value or kept
            if not right or not _analysis_agrees(after, edited, launches[launch], name, value):
                raise Refused(f"after the edit nothing would show that {name} is {value}")


def _analysed(text: str, file: str) -> tuple[Kernel, ...]:
    """Return the kernels of an edited text; what an edit left as it was is taken over from the text before it."""
    memo = getattr(_own, "memo", None)
    if memo is None:
        memo = _own.memo = Memo()
    return analyze(text, file, memo).kernels


_own = threading.local()
"""Holds the memo of a thread: two must not use one at a time."""


@lru_cache(maxsize=4)
def _kernels(file: str, text: str) -> tuple[Kernel, ...]:
    return analyze(text, file).kernels


def _check_config(kernel: Kernel, wanted: Mapping[str, int]) -> None:
    configs = kernel.autotune.configs if kernel.autotune is not None else ()
    texts = {name: str(value) for name, value in wanted.items()}
    if not any(texts.items() <= dict((*c.constexprs, *c.options)).items() for c in configs):
        raise Refused("the autotuner would not see the added config")


def _analysis_agrees(source: Source, kernel: Kernel, node: LaunchNode, name: str, value: int) -> bool:
    """Tell whether the analysis sees no other number as the origin of `name` at the launch `node`."""
    here = (s for s in kernel.launch_sites if s.file == source.file)
    site = next((s for s in here if source.offsets_of(s.range) == source.span(node.call)), None)
    if site is None:
        return False
    found = dict((*site.constexprs, *site.options)).get(name)
    if found is None or found.origin is None:
        return True
    start, end = source.offsets_of(found.origin)
    text = source.text[start:end]
    return not text.isdecimal() or int(text) == value
