"""Inputs that cross the numbers that a candidate adds to the text (see `literals`), where they can be afforded."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Call, Scalar
from tritonforge.jobs.together import all_of
from tritonforge.verify.costly import Alone, affordable, ask_one
from tritonforge.verify.grouping import Groups
from tritonforge.verify.inputs import Variation
from tritonforge.verify.literals import Literal
from tritonforge.verify.resizing import all_tensors, leaves, resize
from tritonforge.verify.sizes import Count, counts, programs_of
from tritonforge.verify.spreading import spread

_MAX_LITERALS = 4
_MAX_INPUTS = 3
"""For one number: so many ways of crossing it are tried."""


@dataclass(frozen=True)
class Reached:
    """Inputs that cross a candidate's new numbers, and the numbers that nothing crosses for its cost alone."""

    variations: tuple[Variation, ...] = ()
    unreached: frozenset[Literal] = frozenset()


async def reaching(
    call: Call,
    groups: Groups,
    literals: Sequence[Literal],
    alone: Alone,
    *,
    usual: Sequence[Variation],
    tile: int,
    seed: int,
    grid: frozenset[int] = frozenset(),
) -> Reached:
    """Return inputs of `call` for each number of `literals`.

    Args:
        call: the recorded call.
        groups: which of its sizes change together.
        literals: the candidate's new numbers.
        alone: runs the original on one input, within bounds.
        usual: the inputs that are tried anyway.
        tile: the largest tile size of either side.
        seed: the first seed.
        grid: extents of the recorded grids, where the call has no launches.
    """
    sized = _Sized(call, groups, tile, counts(call, groups, grid))
    chosen = literals[:_MAX_LITERALS]
    asked_about = list(_crossing(sized, chosen, usual, seed))
    answers = await all_of(ask_one(one.call, alone) for _, one in asked_about)
    asking = [literal for literal in chosen if literal.exactly]
    equal = await all_of(_exactly(sized, literal.value, alone, seed=seed + 301) for literal in asking)
    exactly = dict(zip(asking, equal, strict=True))
    kept: list[Variation] = []
    unreached: set[Literal] = set()
    for literal in chosen:
        kept += exactly.get(literal, ())
        if _is_usual(sized, literal, usual):
            continue
        found = [(one, *answer) for (what, one), answer in zip(asked_about, answers, strict=True) if what is literal]
        kept += [one for one, reason, _ in found if not reason]
        # Where the original itself ends, nothing is left to cross.
        limits = any(reason and not costs for _, reason, costs in found)
        crossed = any(sized.crosses(one.call, literal) for one in (*usual, *kept))
        if literal.compared and not crossed and not limits:
            unreached.add(literal)
    return Reached(tuple(kept), frozenset(unreached))


def _is_usual(sized: _Sized, literal: Literal, usual: Sequence[Variation]) -> bool:
    """Tell whether the usual inputs show all there is to see of a number."""
    return not literal.compared and any(sized.crosses(one.call, literal) for one in usual)


def _crossing(
    sized: _Sized, literals: Sequence[Literal], usual: Sequence[Variation], seed: int
) -> Iterator[tuple[Literal, Variation]]:
    """Yield the inputs to ask about for each number that the usual ones do not show, each sizes once."""
    tried: set[tuple[int, ...]] = set()
    for literal in literals:
        if _is_usual(sized, literal, usual):
            continue
        for about, sizes in itertools.islice(sized.ways(literal), _MAX_INPUTS):
            if tuple(sizes) in tried:
                continue
            tried.add(tuple(sizes))
            one = Variation(resize(sized.call, sized.groups.sized(sizes), seed=seed + len(tried)), about)
            if affordable(one.call, sized.programs(sizes)):
                yield literal, one


async def _exactly(sized: _Sized, value: int, alone: Alone, *, seed: int) -> list[Variation]:
    """Return inputs of which one size is just `value`: where that is asked for, something else is done.

    Rows have gaps where the original allows it, because a number that stands for a size may stand for a stride too.
    """
    kept: list[Variation] = []
    for about, sizes in itertools.islice(sized.equal(value), _MAX_INPUTS):
        plain = resize(sized.call, sized.groups.sized(sizes), seed=seed + len(kept))
        if not affordable(plain, sized.programs(sizes)):
            continue
        apart = spread(plain, "rows")
        ways = [(plain, about)] if apart == plain else [(apart, f"{about}; gaps between rows"), (plain, about)]
        for one, words in ways:
            reason, _ = await ask_one(one, alone)
            if not reason:
                kept.append(Variation(one, words))
                break
    return kept


def unreached_sentence(literals: Iterable[Literal]) -> str:
    """Return why a candidate is refused for numbers that no input crosses; empty when there are none."""
    first = min(literals, key=lambda one: one.line, default=None)
    if first is None:
        return ""
    what = "a number of programs is" if first.programs else "something is"
    return f"line {first.line}: {what} compared with {first.value}, which no input here reaches"


@dataclass(frozen=True)
class _Sized:
    """A recorded call, its sizes, and how they cut into tiles and programs."""

    call: Call
    groups: Groups
    tile: int
    counts: tuple[Count, ...]

    def ways(self, literal: Literal) -> Iterator[tuple[str, list[int]]]:
        """Yield sizes that cross a number: as a number of programs, of tiles, of elements along each size."""
        n = len(self.groups.groups)
        for count in self.counts:
            sizes = [2 + index % 2 for index in range(n)]
            first, block = count.factors[0]
            sizes[first] = (literal.value // count.fixed + 1) * block - (block // 2 if block > 1 else 0)
            yield f"more than {literal.value} programs, which the candidate names", sizes
        counted = {index for count in self.counts for index, _ in count.factors}
        order = sorted(range(n), key=lambda index: index in counted)
        for times in (self.tile, 1):
            for index in order:
                sizes = [2 + at % 2 for at in range(n)]
                sizes[index] = literal.value * times + self.tile // 2 + 5
                if times == 1 or literal.tiles:
                    yield f"a size over {literal.value * times}, which the candidate names", sizes

    def equal(self, value: int) -> Iterator[tuple[str, list[int]]]:
        """Yield sizes of which one is `value`, the others small."""
        for index in range(len(self.groups.groups)):
            sizes = [2 + at % 2 for at in range(len(self.groups.groups))]
            sizes[index] = value
            yield f"a size of just {value}, which the candidate asks for", sizes

    def crosses(self, one: Call, literal: Literal) -> bool:
        """Tell whether what a number may stand for is larger than it on an input."""
        if literal.programs and self.counts:
            return self.programs(self.groups.sizes_of(one)) > literal.value
        limit = literal.value * (self.tile if literal.tiles and literal.value < self.tile else 1)
        extents = [n for tensor in all_tensors(one) for n in (*tensor.shape, tensor.elements)]
        numbers = [v.value for _, v in leaves(one) if isinstance(v, Scalar) and isinstance(v.value, int)]
        return max([0, *extents, *numbers]) > limit

    def programs(self, sizes: Sequence[int]) -> int:
        """Return how many programs the largest extent of the grids has."""
        return max((programs_of(sizes, count) for count in self.counts), default=0)
