"""Which sizes an input gets: just over a tile, round and not, one, and past the recorded number of programs.

Sizes of an input are odd and all different, so that a swapped axis, a stride or a tail cannot hide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Call, RecordedLaunch, Scalar
from tritonforge.verify.grouping import OPERATIONS, Groups
from tritonforge.verify.resizing import SMALLEST, Place, all_tensors, resize

_FEWER_PROGRAMS = "{} programs along one extent of the grid: the recorded {} take long"
_MANY_TILES = 16
_LONGEST = 2048
_PROGRAMS = 1100
"""So many programs of a kernel of some twenty operations take 1 to 3 s in the interpreter, on one core."""

_LANES = 1 << 25
_FEWER = 260
_ELEMENTS = 1 << 21
_MOST_PAST = 3
SECONDS_EACH = 15e-6
"""What an interpreted operation on a block takes on one core."""
_LONGEST_RUN = 1.0
"""Seconds, about, that a run may take whose programs are many and do much each."""
_HEAVY = 0.003
"""Seconds that one interpreted program of a kernel of some fifty operations takes at least."""
_HEAVY_PROGRAMS = 64


def small(groups: Groups) -> list[int]:
    """Return a small size for each group, smaller where all together take long."""
    return groups.bounded([19 + 6 * index for index in range(len(groups.groups))])


def few(groups: Groups, programs: frozenset[int]) -> list[int]:
    """Return a small size for each group, and a smaller one for those that count programs."""
    little = [5 + 2 * i if i in programs else 19 + 6 * i for i in range(len(groups.groups))]
    return groups.bounded(little)


def divisible(groups: Groups, programs: frozenset[int], *, by: int, apart: int) -> list[int]:
    """Return multiples of `by`, those of different groups `apart` from each other; few of what counts programs."""
    sizes = [16 if index in programs else by + apart * (index + 1) for index in range(len(groups.groups))]
    return groups.bounded(sizes, by=16) if by == 16 else sizes


def beyond(recorded: int, tile: int) -> int:
    """Return a size that ends in a tail and is over the recorded one, or over many tiles where that is too large."""
    return max(tile, min(recorded, _MANY_TILES * tile, _LONGEST)) + tile // 2 + 5


def counting(call: Call, groups: Groups, grid: frozenset[int]) -> frozenset[int]:
    """Return which groups count programs one by one, not elements of a tile: they have no tile to cross.

    Where a call was recorded with several sizes alike, it cannot be told which of them a grid counts: none, then.
    """
    return _one_by_one(call, groups, grid) - _alike(groups)


def perhaps_counting(call: Call, groups: Groups, grid: frozenset[int]) -> frozenset[int]:
    """Return which groups may count programs one by one, and may be crossing tiles as well."""
    return _one_by_one(call, groups, grid) & _alike(groups)


def _one_by_one(call: Call, groups: Groups, grid: frozenset[int]) -> frozenset[int]:
    named = {index for index, group in enumerate(groups.groups) if _is_grid(group, grid)}
    counted = {index for count in counts(call, groups, grid) for index, block in count.factors if block == 1}
    return frozenset(named | counted)


def _alike(groups: Groups) -> frozenset[int]:
    """Return the groups whose recorded size another group has, too."""
    sizes = [group[0].size for group in groups.groups]
    return frozenset(index for index, size in enumerate(sizes) if sizes.count(size) > 1)


def _is_grid(group: Sequence[Place], grid: frozenset[int]) -> bool:
    return all(place.size in grid for place in group)


@dataclass(frozen=True)
class Past:
    """Sizes for more programs than were recorded; or, where those are too many to interpret, for as many as can be."""

    sizes: list[int]
    about: str


@dataclass(frozen=True)
class Count:
    """An extent of a recorded grid, and the groups that it counts, each in blocks of so many elements."""

    programs: int
    factors: tuple[tuple[int, int], ...]
    fixed: int
    lanes: int


def past(call: Call, groups: Groups, *, grid: frozenset[int], covered: Sequence[Sequence[int]]) -> tuple[Past, ...]:
    """Return sizes for which more programs run than when `call` was recorded, one for each extent of its grids.

    Args:
        call: the recorded call, with its launches where they are known.
        groups: which of its sizes change together.
        grid: extents of the recorded grids, used where the call has no launches.
        covered: sizes that are tried anyway.
    """
    found: list[Past] = []
    for count in counts(call, groups, grid):
        one = _past(call, groups, count)
        if one is None or _covered(groups, count, covered) or any(one.sizes == other.sizes for other in found):
            continue
        found.append(one)
    return tuple(found[:_MOST_PAST])


def _past(call: Call, groups: Groups, count: Count) -> Past | None:
    sizes = [3 + 2 * index for index in range(len(groups.groups))]
    most = min(_PROGRAMS, max(_LANES // max(count.lanes, 1), 1))
    each = _seconds(call, groups)
    most = max(min(most, int(_LONGEST_RUN / each) if each else most), _HEAVY_PROGRAMS)
    fewer = min(_FEWER, most)
    if _is_heavy(call, groups, count):
        # Each of more programs goes through more iterations, and the grid's other extents multiply both.
        others = max(math.prod(launch.grid) for launch in call.launches) // count.programs
        most = fewer = max(_HEAVY_PROGRAMS // max(others, 1), 2)
    for index, block in count.factors:
        sizes[index] = -(-groups.groups[index][0].size // block) * block + block // 2 + 5
    about = "more programs than recorded, with a tail"
    if programs_of(sizes, count) > most:
        # Each factor gives way alike, so that every dimension still has many blocks.
        share = (min(most, fewer) / programs_of(sizes, count)) ** (1 / len(count.factors))
        for index, block in count.factors:
            sizes[index] = max(math.ceil(sizes[index] * share) // block, 1) * block + block // 2 + 1
        about = _FEWER_PROGRAMS
    # What each of them takes is multiplied by the other extents of the grid.
    fitting = groups.bounded(sizes, most=OPERATIONS)
    about = about if fitting == sizes else _FEWER_PROGRAMS
    sizes = fitting
    about = about.format(programs_of(sizes, count), count.programs)
    chosen = groups.sized(sizes)
    if sum(tensor.elements for tensor in all_tensors(resize(call, chosen, seed=0))) > _ELEMENTS:
        return None
    return Past(sizes, about)


def programs_of(sizes: Sequence[int], count: Count) -> int:
    """Return how many programs a grid's extent has for these sizes."""
    return count.fixed * math.prod(-(-sizes[index] // block) for index, block in count.factors)


def heavy(call: Call, groups: Groups, grid: frozenset[int]) -> dict[int, int]:
    """Return the groups that take long for each block more that a grid counts of them, with the size of a block."""
    found = [count for count in counts(call, groups, grid) if _is_heavy(call, groups, count)]
    return {index: block for count in found for index, block in count.factors if block > 1}


def _is_heavy(call: Call, groups: Groups, count: Count) -> bool:
    return _loops_over(call, groups, count) and _seconds(call, groups) > _HEAVY


def _loops_over(call: Call, groups: Groups, count: Count) -> bool:
    """Tell whether programs that count a size in blocks may go through that size, too, as those of an attention do."""
    several = [len({place.path for place in groups.groups[index]}) > 1 for index, block in count.factors if block > 1]
    return any(several) and any(len(_blocks(launch)) > 1 for launch in call.launches)


def _seconds(call: Call, groups: Groups) -> float:
    """Return about how long one interpreted program takes, from the run in which sizes were `BASE`.

    From what it does, not from a clock: the same inputs are made on every machine.
    """
    found = counts(call, groups, frozenset())
    programs = max((_programs_at_base(launch, groups, found) for launch in call.launches), default=1)
    return groups.operations * SECONDS_EACH / max(programs, 1)


def _programs_at_base(launch: RecordedLaunch, groups: Groups, found: Sequence[Count]) -> int:
    left = {count.programs: count for count in reversed(found)}
    sizes = [groups.at] * len(groups.groups)
    programs = 1
    for extent in launch.grid:
        # Of two extents that are alike, one counts blocks and the other what stays as it is.
        count = left.pop(extent, None)
        programs *= programs_of(sizes, count) if count else extent
    return programs


def takes(call: Call, groups: Groups) -> float:
    """Return how long the recorded call takes in the interpreter at least: loops may be longer than at `BASE`."""
    return _seconds(call, groups) * sum(math.prod(launch.grid) * launch.count for launch in call.launches)


def _covered(groups: Groups, count: Count, covered: Sequence[Sequence[int]]) -> bool:
    recorded = [group[0].size for group in groups.groups]
    return any(programs_of(sizes, count) > programs_of(recorded, count) for sizes in covered)


def counts(call: Call, groups: Groups, grid: frozenset[int]) -> tuple[Count, ...]:
    """Return which groups the extents of the recorded grids count, in what blocks."""
    return tuple(_counts(call, groups, grid))


def counted(call: Call, groups: Groups, grid: frozenset[int]) -> frozenset[int]:
    """Return which groups a grid grows with, by element or by block."""
    named = {index for index, group in enumerate(groups.groups) if _is_grid(group, grid)}
    return frozenset(named | {index for count in counts(call, groups, grid) for index, _ in count.factors})


def _counts(call: Call, groups: Groups, grid: frozenset[int]) -> Iterator[Count]:
    seen = set()
    for launch in call.launches:
        blocks = _blocks(launch)
        lanes = math.prod(sorted(blocks)[-2:])
        for extent in launch.grid:
            one = _explained(extent, groups, blocks, _fixed(call), lanes) if extent > 1 else None
            if one and one not in seen:
                seen.add(one)
                yield one
    if not call.launches:
        for index, group in enumerate(groups.groups):
            if _is_grid(group, grid):
                yield Count(group[0].size, ((index, 1),), 1, 1)


def _blocks(launch: RecordedLaunch) -> list[int]:
    found = {v.value for _, v in launch.constexprs if isinstance(v, Scalar) and type(v.value) is int and v.value > 1}
    return sorted(found)


def _fixed(call: Call) -> list[int]:
    """Return what extents that stay as they are (batch, heads) may multiply a grid by."""
    extents = {n for tensor in all_tensors(call) for n in tensor.shape if 1 < n < SMALLEST}
    return sorted({1, *extents, *(a * b for a, b in itertools.combinations(sorted(extents), 2))})


def _explained(extent: int, groups: Groups, blocks: list[int], fixed: list[int], lanes: int) -> Count | None:
    """Find which groups, in which blocks, an extent of a grid counts: one group, else the product of two."""
    counted = [[(-(-group[0].size // block), block) for block in (1, *blocks)] for group in groups.groups]
    for factor in fixed:
        for index, ways in enumerate(counted):
            for programs, block in ways:
                if programs > 1 and programs * factor == extent:
                    return Count(extent, ((index, block),), factor, lanes)
    for factor in fixed:
        for (i, first), (j, second) in itertools.combinations(enumerate(counted), 2):
            for (a, block_a), (b, block_b) in itertools.product(first, second):
                if a > 1 and b > 1 and a * b * factor == extent:
                    return Count(extent, ((i, block_a), (j, block_b)), factor, lanes)
    return None
