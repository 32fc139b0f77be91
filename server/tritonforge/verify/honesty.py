"""How results came about: the checks that several comparisons made, put together, and the code that never ran."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.messages import Program
from tritonforge.verify.signature import text_of

_NAMES = {
    "host computation": "library fallback",
    "kept results": "repeated calls",
    "races": "on the GPU",
    "memory beside buffers": "on the GPU",
}
"""Names of a worker's checks → those of a verdict, where they differ."""
_MOST_NAMED = 4


def folded(known: Mapping[str, str], checks: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Add what one comparison says of its checks: what failed once has failed, what passed once was made."""
    found = dict(known)
    for theirs, said in checks:
        name = _NAMES.get(theirs, theirs)
        before = found.get(name, "")
        if not before or said.startswith("failed") or (said == "passed" and before.startswith("skipped")):
            found[name] = said
    return found


def joined(parts: Iterable[KernelCoverage]) -> tuple[KernelCoverage, ...]:
    """Put together what ran in several comparisons: a line was missed that all of them missed."""
    found: dict[tuple[str, str], KernelCoverage] = {}
    for one in parts:
        before = found.get((one.file, one.kernel))
        found[one.file, one.kernel] = one if before is None else _both(before, one)
    return tuple(found.values())


def _both(a: KernelCoverage, b: KernelCoverage) -> KernelCoverage:
    lines = tuple(line for line in a.missed_lines if line in b.missed_lines)
    branches = tuple(side for side in a.missed_branches if side in b.missed_branches)
    return KernelCoverage(
        kernel=a.kernel,
        file=a.file,
        lines=max(a.lines, b.lines),
        lines_run=max(a.lines, b.lines) - len(lines),
        branches=max(a.branches, b.branches),
        branches_taken=max(a.branches, b.branches) - len(branches),
        missed_lines=lines,
        missed_branches=branches,
        constexpr_branches=tuple(side for side in a.constexpr_branches if side in b.constexpr_branches),
    )


def covered(coverage: Sequence[KernelCoverage], candidate: Program) -> str:
    """Return the check of coverage: passed where every line and branch of the candidate's kernels ran."""
    own = [one for one in coverage if _file_of(one, candidate) is not None]
    if not own:
        return "skipped: nothing was interpreted"
    missed = [place for one in own for place in _places(one)]
    if not missed:
        return "passed"
    ran, lines = sum(one.lines_run for one in own), sum(one.lines for one in own)
    more = f" and {len(missed) - _MOST_NAMED} more" if len(missed) > _MOST_NAMED else ""
    return f"skipped: {ran} of {lines} lines ran; not {', '.join(missed[:_MOST_NAMED])}{more}"


def never_ran(coverage: Sequence[KernelCoverage], original: Program, candidate: Program) -> str:
    """Return in one sentence which code that the candidate adds ran on no input; empty when all did.

    A branch that tests for sizes or values that no input has may do anything. What the original has too, word for
    word, is as right there as it was before.
    """
    for one in coverage:
        file = _file_of(one, candidate)
        if file is None:
            continue
        after, before = text_of(candidate, file), text_of(original, file)
        if after is None or before is None:
            continue
        lines = after.splitlines()
        had = {line.strip() for line in before.splitlines()}
        for line in one.missed_lines:
            if line <= len(lines) and lines[line - 1].strip() not in had:
                return f"line {line}: the candidate adds code that ran on no input"
        for line, side in one.missed_branches:
            if line <= len(lines) and lines[line - 1].strip() not in had:
                return f"line {line}: the candidate adds a branch that no input took: {side}"
    return ""


def _file_of(one: KernelCoverage, candidate: Program) -> str | None:
    """Return the file of a kernel or helper in the candidate; None for one of another package, as Triton's own are."""
    file = os.path.relpath(one.file, candidate.root).replace(os.sep, "/")
    if not file.startswith("../"):
        return file
    return candidate.file if Path(file).name == Path(candidate.file).name else None


def _places(one: KernelCoverage) -> list[str]:
    lines = [f"line {line}" for line in one.missed_lines]
    return lines + [f"{side} at line {line}" for line, side in one.missed_branches if line not in one.missed_lines]
