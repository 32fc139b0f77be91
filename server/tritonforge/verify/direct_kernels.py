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
    named = _Named(original, candidate)
    mine, theirs = named.both(original.file, kernel.name)
    # Of several kernels of one name, the one in the same place among them.
    index = next((i for i, one in enumerate(mine) if one.range == kernel.range), 0)
    counterpart = candidate_kernel or (theirs[index] if index < len(theirs) else None)
    if counterpart is None:
        return ()
    others = (one for one in _others(named, kernel, before) if _changed(one, before, after))
    return (Pair(kernel, counterpart), *others)


class _Named:
    """The kernels of both programs by name, each file analysed once."""

    def __init__(self, original: Program, candidate: Program) -> None:
        self._programs = original, candidate
        self._files: dict[str, tuple[tuple[Kernel, ...], ...]] = {}

    def both(self, file: str, name: str) -> tuple[list[Kernel], list[Kernel]]:
        """Return the original's kernels of that name in a file, and the candidate's."""
        if file not in self._files:
            texts = (text_of(program, file) or "" for program in self._programs)
            self._files[file] = tuple(tuple(analyze(text, file).kernels) for text in texts)
        mine, theirs = ([one for one in kernels if one.name == name] for kernels in self._files[file])
        return mine, theirs


def _others(named: _Named, kernel: Kernel, before: Sequence[RecordedLaunch]) -> Iterator[Pair]:
    for file, name in dict.fromkeys((one.kernel_file, one.kernel) for one in before):
        mine, theirs = named.both(file, name)
        # Which of several kernels of one name was launched is not told by its name.
        if name != kernel.name and len(mine) == len(theirs) == 1:
            yield Pair(mine[0], theirs[0])


def _changed(pair: Pair, before: Sequence[RecordedLaunch], after: Sequence[RecordedLaunch]) -> bool:
    if pair.original.code_hash != pair.candidate.code_hash:
        return True
    mine, theirs = ([one.constexprs for one in of(pair.original, launches)] for launches in (before, after))
    return mine != theirs
