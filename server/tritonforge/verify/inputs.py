"""Which inputs a candidate is tried on: sizes on and off the tile boundary, past what was recorded, hostile values.

The recorded call is far too large to interpret, and its round sizes hide wrong tails. So its sizes are replaced, and
its values too. Inputs come in the order in which they find most wrong candidates, because the first that a candidate
fails on ends its check:

1. each size over a tile with a tail, on ordinary values;
2. NaN and infinities in the largest argument, laid out so that rows without them stay without;
3. all finite families in one input, another in each row (see `values`);
4. sizes that divide evenly, all and one at a time, and those only 16 divides; one element; other factors and flags;
5. families that fill whole tensors, over a tile, where sums are long;
6. NaN and infinities in the other arguments, over a tile, and alone in whole tensors;
7. more programs than were recorded, which takes longest.

What the original may or may not allow (memory with gaps, empty tensors, other dtypes, arguments left out) is in
`asking`, what may take long in `costly`. Everything here follows from the seed and from what
the original does, counted in operations: the same seed gives the same inputs on every machine. Only `costly` asks a
clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tritonforge.domain.launch import Call, Family, Hostile
from tritonforge.verify.grouping import OPERATIONS, Groups, SelfCheck, find_groups
from tritonforge.verify.resizing import Path, all_tensors, resize
from tritonforge.verify.scalars import flipped_flags, other_scalars
from tritonforge.verify.sizes import beyond, counted, counting, divisible, few, heavy, past, perhaps_counting, small
from tritonforge.verify.values import (
    ALONE,
    ALONE_AGAIN,
    ALONG,
    POISONED,
    alone,
    floating,
    in_words,
    mosaic,
    poisoned,
    poisoned_alone,
    turns,
    with_values,
)

__all__ = ["Groups", "SelfCheck", "Variation", "find_groups", "variations"]

RECORDED = "as recorded"
"""How the words about an input begin that has the recorded sizes and integers."""
SEEDS_AS_RECORDED = 2
"""Inputs of a call whose sizes cannot be changed: the same sizes with other values."""

_MAX_SINGLES = 4
_MAX_FLAGS = 4
_MAX_POISONED = 4
_MAX_EVEN = 3
_MAX_LONG_POISONED = 2
_MOST_ELEMENTS = 1 << 19
"""Elements of an input with a long dimension and another with a row for each kind of value."""
_LONG = 2
"""Long inputs that may take as long as one may: of more, each gets a part."""
_LEAST_EVEN = 16
_SHARE = 0.4
"""Of what an input may take, for each of the many that fill whole tensors."""
_RUN = 128
_POISONED = "NaN and Inf, alone and in blocks, another in each row"
_MOSAIC = "another family of values in each row"


@dataclass(frozen=True)
class Variation:
    """An input to try: the call and, in a few words, what is special about it."""

    call: Call
    about: str


def variations(
    call: Call,
    groups: Groups,
    *,
    tile: int,
    seed: int,
    grid: frozenset[int] = frozenset(),
    lighter: Call | None = None,
    again: bool = False,
) -> tuple[Variation, ...]:
    """Return the inputs for one candidate, those that find most first.

    Args:
        call: the recorded call; its launches, where it has them, tell how many programs were recorded.
        groups: which of its sizes change together.
        tile: the largest tile size that the original or the candidate uses.
        seed: the first seed; every input gets its own.
        grid: extents of the grids of the recorded launches. A size that is one of them counts programs, not elements
            of a tile: it has no tail to cross, and thousands of programs would take minutes to interpret.
        lighter: what is resized in place of `call`, see `grouping.lightened`.
        again: another call of the same function has every family in a tensor of its own. Here a mosaic has them, and
            only what arithmetic in another type may lose fills whole tensors.
    """
    light = lighter or call
    made = _Made(light, groups, tile, seed)
    if not groups.groups:
        return _as_recorded(made)
    little = small(groups)
    programs = counting(call, groups, grid)
    least = few(groups, programs)
    crossing = [index for index in range(len(groups.groups)) if index not in programs]
    in_blocks = counted(call, groups, grid) | perhaps_counting(call, groups, grid)
    for index in crossing:
        # What a grid counts in blocks goes beyond the recorded size below, where programs are counted.
        long = beyond(0 if index in in_blocks else groups.groups[index][0].size, tile)
        long = groups.affordable(index, long)
        sizes = [long if at == index else size for at, size in enumerate(least)]
        most = OPERATIONS * min(1.0, _LONG / len(crossing))
        made.add(groups.bounded(sizes, most=most, stay=(index,)), "one size over a tile, with a tail")
    run = min(tile, _RUN)
    # Pieces of vectors are stretches, which want length; rows are pieces of matrices already.
    wide = (
        little
        if _has_rows(call)
        else [max(size, groups.affordable(index, tile + tile // 2 + 5)) for index, size in enumerate(little)]
    )
    wide = groups.bounded(wide, most=OPERATIONS)
    made.add_hostile(wide, partial(poisoned, at=0, groups=groups.groups, tile=run), _POISONED)
    made.add_hostile(wide, partial(mosaic, groups=groups.groups, tile=run), _MOSAIC)
    aligned = max(16, min(tile, 128))
    while aligned > _LEAST_EVEN and groups.costs(divisible(groups, programs, by=aligned, apart=16)) > OPERATIONS:
        aligned //= 2
    made.add_family(divisible(groups, programs, by=aligned, apart=0), ALONG[0], "sizes that divide evenly")
    off = divisible(groups, programs, by=aligned, apart=16)
    made.add_family(off, ALONG[1], "sizes divisible by 16, off the tile")
    for index in crossing[:_MAX_EVEN] if len(crossing) > 1 else ():
        sizes = [aligned if at == index else size for at, size in enumerate(least)]
        made.add(groups.bounded(sizes, stay=(index,)), "one size that divides evenly, the others do not")
    scalars = other_scalars(light)
    for about, changed in (*((("other factors", scalars),) if scalars else ()), *flipped_flags(light)[:_MAX_FLAGS]):
        made.add(least, about, changed)
    made.add([1] * len(little), "one element")
    if 1 < len(little) <= _MAX_SINGLES:
        for index in range(len(little)):
            sizes = [1 if at == index else size for at, size in enumerate(little)]
            made.add(sizes, "one size is one")
    # Long sums are where order and accumulator matter; what several arguments share is what is summed over most often.
    shared = [index for index in crossing if len({p.path for p in groups.groups[index] if p.axis >= 0}) > 1]
    long_sums = shared or crossing
    slow = heavy(call, groups, grid)
    for index, family in enumerate(ALONE_AGAIN if again else ALONE):
        sizes = list(least)
        if long_sums:
            at = long_sums[index % len(long_sums)]
            block = min(tile, slow.get(at, tile))
            sizes[at] = groups.affordable(at, block + block // 2 + 2 * at + 5, share=_SHARE)
            sizes = groups.bounded(sizes, stay=(at,))
        made.add_family(sizes, family, "over a tile" if long_sums else "")
    for at in range(1, min(len(floating(call)), _MAX_POISONED)):
        made.add_hostile(wide, partial(poisoned, at=at, groups=groups.groups, tile=run), _POISONED)
    for index in (long_sums or [])[:_MAX_LONG_POISONED]:
        # One tile of a row holds NaN or Inf, and another does not; each kind in a row of its own.
        sizes = [max(size, 2 * len(POISONED) + 1) if at in programs else size for at, size in enumerate(least)]
        sizes[index] = groups.affordable(index, min(tile, slow.get(index, tile)) * 3 // 2 + 5)
        sizes = groups.bounded(sizes, most=OPERATIONS, stay=(index, *programs))
        if made.elements(sizes) <= _MOST_ELEMENTS:
            chosen = partial(poisoned, at=0, groups=groups.groups, tile=tile)
            made.add_hostile(sizes, chosen, f"{_POISONED}, over a tile")
    for turn in range(min(turns(call), 1) if again else turns(call)):
        made.add_hostile(least, partial(poisoned_alone, turn=turn, tile=run))
    for one in past(call, groups, grid=grid, covered=made.sizes):
        made.add(one.sizes, one.about)
    return tuple(made.variations)


class _Made:
    """Variations in the order in which they were added, each with a seed of its own."""

    def __init__(self, call: Call, groups: Groups, tile: int, seed: int) -> None:
        self.call, self.groups, self.tile, self.seed = call, groups, tile, seed
        self.variations: list[Variation] = []
        self.sizes: list[Sequence[int]] = []

    def resized(self, sizes: Sequence[int], changed: Call | None = None) -> Call:
        chosen = self.groups.sized(sizes)
        seed = self.seed + len(self.variations)
        if not chosen:
            return dataclasses.replace(changed or self.call, seed=seed, launches=())
        return resize(changed or self.call, chosen, seed=seed)

    def elements(self, sizes: Sequence[int]) -> int:
        """Return how many elements the tensors have for these sizes."""
        return sum(tensor.elements for tensor in all_tensors(self.resized(sizes)))

    def add(self, sizes: Sequence[int], about: str, changed: Call | None = None) -> None:
        self.variations.append(Variation(self.resized(sizes, changed), about))
        self.sizes.append(sizes)

    def add_hostile(
        self, sizes: Sequence[int], choose: Callable[[Call], Mapping[Path, Hostile]], about: str = ""
    ) -> None:
        """Add an input with the values that `choose` gives the resized call, if it has floating tensors at all."""
        resized = self.resized(sizes)
        policies = choose(resized)
        if policies:
            self.variations.append(Variation(with_values(resized, policies), about or in_words(policies)))
            self.sizes.append(sizes)

    def add_family(self, sizes: Sequence[int], family: Family, about: str) -> None:
        resized = self.resized(sizes)
        policies = alone(resized, family)
        words = "; ".join(part for part in (about, in_words(policies)) if part)
        if policies or about:
            self.variations.append(Variation(with_values(resized, policies), words))
            self.sizes.append(sizes)


def _has_rows(call: Call) -> bool:
    return any(sum(extent > 1 for extent in tensor.shape) > 1 for _, tensor in floating(call))


def _as_recorded(made: _Made) -> tuple[Variation, ...]:
    note = f"{RECORDED}: {made.groups.note}"
    run = min(made.tile, _RUN)
    for _ in range(SEEDS_AS_RECORDED):
        made.add([], note)
    made.add_hostile([], partial(poisoned, at=0, groups=(), tile=run), f"{_POISONED}; {note}")
    made.add_hostile([], partial(mosaic, groups=(), tile=run), f"{_MOSAIC}; {note}")
    for family in ("offset", "large-maxima"):
        made.add_family([], family, note)
    return tuple(made.variations)
