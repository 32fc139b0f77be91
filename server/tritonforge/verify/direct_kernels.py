"""Which kernels of a candidate stand in their originals' places: the one that is asked about, and those it edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritonforge.analysis import analyze
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.messages import Program
from tritonforge.verify.direct_pairs import of
from tritonforge.verify.signature import text_of


@dataclass(frozen=True)
class Pair:
    """A kernel of the original and that of the candidate which stands for it."""

    original: Kernel
    candidate: Kernel


def pairs(
    original: Program,
    candidate: Program,
    kernel: Kernel,
    candidate_kernel: Kernel | None,
    *,
    before: Sequence[RecordedLaunch],
    after: Sequence[RecordedLaunch],
) -> tuple[Pair, ...]:
    """Return the pairs to compare directly; empty when no kernel of the candidate stands for `kernel`.

    Args:
        original: the program of the original.
        candidate: the edited program.
        kernel: the kernel that the check is about, which comes first.
        candidate_kernel: what stands for it, where it has another name.
        before: what the recorded calls launch of the original.
        after: what they launch of the candidate.

    Another kernel that the calls launch is compared when its text or its constexprs are not the original's: an edit for
    one kernel may well change the other that reads what it leaves.
    """
    counterpart = candidate_kernel or counterpart_of(original, candidate, kernel)
    if counterpart is None:
        return ()
    others = (one for one in _others(original, candidate, kernel, before) if _changed(one, before, after))
    return (Pair(kernel, counterpart), *others)


def counterpart_of(original: Program, candidate: Program, kernel: Kernel) -> Kernel | None:
    """Return the candidate's kernel of the same name, and of the same place among those of that name."""
    mine, theirs = (_named(program, original.file, kernel.name) for program in (original, candidate))
    index = next((i for i, one in enumerate(mine) if one.range == kernel.range), 0)
    return theirs[index] if index < len(theirs) else None


def _named(program: Program, file: str, name: str) -> list[Kernel]:
    return [one for one in analyze(text_of(program, file) or "", file).kernels if one.name == name]


def _others(original: Program, candidate: Program, kernel: Kernel, before: Sequence[RecordedLaunch]) -> Iterator[Pair]:
    for file, name in dict.fromkeys((one.kernel_file, one.kernel) for one in before):
        mine, theirs = (_named(program, file, name) for program in (original, candidate))
        # Which of several kernels of one name was launched is not told by its name.
        if name != kernel.name and len(mine) == len(theirs) == 1:
            yield Pair(mine[0], theirs[0])


def _changed(pair: Pair, before: Sequence[RecordedLaunch], after: Sequence[RecordedLaunch]) -> bool:
    if pair.original.code_hash != pair.candidate.code_hash:
        return True
    mine, theirs = ([one.constexprs for one in of(pair.original, launches)] for launches in (before, after))
    return mine != theirs
