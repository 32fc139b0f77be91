"""A first launch spec for a kernel that has none, from its signature and the function that launches it.

A draft is a start for a person who knows the sizes: it parses, it takes less than 1 GiB, and on plain code it runs.
`shapes` reads what a host function shows of its arguments (`evidence`), `guesses` what their names suggest, `sizes`
makes their extents agree, `hosts` and `kernels` put the words together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import FileAnalysis, HostFunction, Kernel
from tritonforge.workload.drafting.hosts import host_words
from tritonforge.workload.drafting.kernels import kernel_words
from tritonforge.workload.specified import hosts_of
from tritonforge.workload.specs import parse_specs

_WIDTH = 116


@dataclass(frozen=True)
class Draft:
    """The words of a spec and where they belong: above `function`, whose first line (decorators too) is `line`."""

    text: str
    function: str
    line: int
    subject: Literal["kernel", "function"]

    def comment(self, indent: str = "", end: str = "\n") -> str:
        """Return the comment lines that say it, each ended by `end`."""
        first, further = f"{indent}# tritonforge: launch", f"{indent}#   "
        lines = [first]
        for word in _words(self.text):
            if len(lines[-1]) + 1 + len(word) > _WIDTH and lines[-1].strip("# ") not in ("", "tritonforge: launch"):
                lines.append(further.rstrip() + "  ")
            lines[-1] += f" {word}"
        return "".join(line + end for line in lines)


def first_spec(kernel: Kernel, analysis: FileAnalysis) -> Draft:
    """Return a spec for the host function that launches `kernel`, or for the kernel where none can be called.

    What is returned can be parsed. Its sizes are guesses.
    """
    for host in hosts_of(kernel, analysis):
        if host.called_as is None or not host.parameters or host.name.rpartition(".")[2].startswith(("test_", "bench")):
            continue
        text = host_words(host, kernel, analysis)
        if text is not None and _parses(text, analysis.file, host, None):
            return Draft(text, host.name, host.range.start.line, "function")
    text = kernel_words(kernel)
    if not _parses(text, analysis.file, None, kernel):
        text = " ".join([*(f"{p.name}={'fp16[4096, 4096]' if p.role == 'pointer' else 64}" for p in kernel.parameters),
                         "grid=4096"])  # fmt: skip
    return Draft(text, kernel.name, kernel.range.start.line, "kernel")


def _parses(text: str, file: str, host: HostFunction | None, kernel: Kernel | None) -> bool:
    subject = host.name if host is not None else kernel.name if kernel is not None else ""
    try:
        parse_specs(text, file=file, function=subject, host=host, kernel=kernel)
    except UsageError:
        return False
    return True


def _words(text: str) -> list[str]:
    """Cut a spec at the blanks between its items."""
    words: list[str] = []
    depth = 0
    quoted = False
    word = ""
    for char in text:
        quoted ^= char == "'"
        depth += (char in "([") - (char in ")]")
        if char == " " and depth == 0 and not quoted:
            words.append(word)
            word = ""
        else:
            word += char
    return [*words, word]
