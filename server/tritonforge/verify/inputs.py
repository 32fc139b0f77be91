"""Which inputs a candidate is tried on: sizes on and off the tile boundary, one element, hostile values.

The recorded call is far too large to interpret, and its round sizes hide wrong tails. So its sizes are replaced. Which
of them may differ from each other is found by asking the original: a variation on which the original raises or leaves
its buffers says nothing about a candidate and is left out.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tritonforge.domain.launch import Call, Distribution, ExactValues, Tensor, ValuePolicy
from tritonforge.domain.messages import InputOutcome
from tritonforge.verify.resizing import (
    Place,
    Spread,
    all_tensors,
    can_resize,
    flipped_flags,
    is_floating,
    map_tensors,
    other_scalars,
    places,
    resize,
    spread,
)

SelfCheck = Callable[[Sequence[Call]], Awaitable[Sequence[InputOutcome]]]
"""Runs the original against itself on each call, and says which of them it can do at all."""

_MAX_PLACES = 12
_BASE = 48
_MAX_SINGLES = 4
_MAX_FLAGS = 4
_MANY_TILES = 16
_LONGEST = 2048
_SPREADS: tuple[tuple[Spread, str], ...] = (
    ("rows", "gaps between rows"),
    ("transposed", "transposed memory"),
    ("elements", "gaps between elements"),
)
SEEDS_AS_RECORDED = 3
"""Inputs of a call whose sizes cannot be changed: the same sizes with other values."""


@dataclass(frozen=True)
class Groups:
    """Places that change together. `note` says why nothing can be changed, when there are none."""

    groups: tuple[tuple[Place, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Variation:
    """An input to try: the call and, in a few words, what is special about it."""

    call: Call
    about: str


async def find_groups(call: Call, self_check: SelfCheck) -> Groups:
    """Find which sizes of `call` are independent of each other.

    Every extent of one recorded size starts out tied to the others of that size. Each is then changed alone, and in
    pairs, on small inputs; what the original accepts is independent.
    """
    reason = can_resize(call)
    if reason:
        return Groups((), reason)
    found = places(call)
    if not found:
        return Groups((), "it has no size to change")
    by_size: dict[int, list[Place]] = {}
    for place in found:
        by_size.setdefault(place.size, []).append(place)
    tied = tuple(tuple(group) for group in by_size.values())
    base = {place: _BASE + 16 * index for index, group in enumerate(tied) for place in group}
    equal = dict.fromkeys(found, _BASE)
    first, second = await self_check([resize(call, base, seed=1), resize(call, equal, seed=1)])
    if first.status == "original-failed":
        if second.status == "original-failed":
            return Groups((), f"the original fails on smaller sizes ({second.detail})")
        return Groups((found,))
    if len(found) > _MAX_PLACES:
        return Groups(tied)
    return Groups(await _split(call, tied, base, self_check))


async def _split(
    call: Call, tied: tuple[tuple[Place, ...], ...], base: dict[Place, int], self_check: SelfCheck
) -> tuple[tuple[Place, ...], ...]:
    shared = [group for group in tied if len(group) > 1]
    alone = [place for group in shared for place in group]
    pairs = [(a, b) for group in shared for i, a in enumerate(group) for b in group[i + 1 :]]
    trials = [{**base, p: base[p] + 5} for p in alone] + [{**base, a: base[a] + 5, b: base[b] + 5} for a, b in pairs]
    outcomes = await self_check([resize(call, sizes, seed=1) for sizes in trials])
    works = [outcome.status != "original-failed" for outcome in outcomes]
    free = {place for place, ok in zip(alone, works, strict=False) if ok}
    paired = {pair for pair, ok in zip(pairs, works[len(alone) :], strict=True) if ok}

    groups: list[tuple[Place, ...]] = [group for group in tied if len(group) == 1]
    for group in shared:
        rest = list(group)
        while rest:
            place = rest.pop(0)
            if place in free and not any(_tied(place, other, free, paired) for other in rest):
                groups.append((place,))
                continue
            partners = [other for other in rest if _tied(place, other, free, paired)]
            if not partners and place not in free:
                partners = [other for other in rest if other not in free]  # three or more that go together
            groups.append((place, *partners))
            rest = [other for other in rest if other not in partners]
    return await _joined(call, groups, tied, base, self_check)


async def _joined(
    call: Call,
    groups: list[tuple[Place, ...]],
    tied: tuple[tuple[Place, ...], ...],
    base: dict[Place, int],
    self_check: SelfCheck,
) -> tuple[tuple[Place, ...], ...]:
    """Join groups that cannot grow without others of their size.

    A bias that may be longer than the rows it is added to, but not shorter, can change alone; the rows cannot.
    """
    trials = [{**base, **{place: base[place] + 5 for place in group}} for group in groups]
    outcomes = await self_check([resize(call, sizes, seed=1) for sizes in trials])
    stuck = {group for group, outcome in zip(groups, outcomes, strict=False) if outcome.status == "original-failed"}
    out: list[tuple[Place, ...]] = []
    for family in tied:
        members = [group for group in groups if group[0] in family]
        if any(group in stuck for group in members) and len(members) > 1:
            grows = [group for group in members if group not in stuck and len(group) > 1]
            out += grows
            out.append(tuple(place for group in members if group not in grows for place in group))
        else:
            out += members
    return tuple(out)


def _tied(a: Place, b: Place, free: set[Place], paired: set[tuple[Place, Place]]) -> bool:
    """Two places belong together when at least one cannot change alone but both can together."""
    return (a in _paired_with(b, paired)) and not (a in free and b in free)


def _paired_with(place: Place, paired: set[tuple[Place, Place]]) -> set[Place]:
    """Return the places that were changed together with `place` without a complaint of the original."""
    return {b for a, b in paired if a == place} | {a for a, b in paired if b == place}


def variations(
    call: Call, groups: Groups, *, tile: int, seed: int, grid: frozenset[int] = frozenset()
) -> tuple[Variation, ...]:
    """Return the inputs for one candidate.

    Args:
        call: the recorded call.
        groups: which of its sizes change together.
        tile: the largest tile size that the original or the candidate uses.
        seed: the first seed; every input gets its own.
        grid: extents of the grids of the recorded launches. A size that is one of them counts programs, not elements
            of a tile: it has no tail to cross, and thousands of programs would take minutes to interpret.
    """
    if not groups.groups:
        return tuple(
            Variation(dataclasses.replace(call, seed=seed + index, launches=()), f"as recorded: {groups.note}")
            for index in range(SEEDS_AS_RECORDED)
        )
    # Sizes are odd and all different, so that a swapped axis, a stride or a tail cannot hide.
    small = [19 + 6 * index for index in range(len(groups.groups))]
    out: list[Variation] = []

    def add(sizes: Sequence[int], about: str, values: ValuePolicy | None = None) -> None:
        chosen = {place: size for group, size in zip(groups.groups, sizes, strict=True) for place in group}
        out.append(Variation(resize(call, chosen, seed=seed + len(out), values=values), about))

    for index, group in enumerate(groups.groups):
        if all(place.size in grid for place in group):
            continue
        long = _beyond(group[0].size, tile)
        sizes = [long if at == index else size for at, size in enumerate(small)]
        add(sizes, "one size over a tile, with a tail")
    aligned = max(16, min(tile, 128))
    add([aligned] * len(groups.groups), "sizes that divide evenly")
    add([aligned + 16 * (at + 1) for at in range(len(small))], "sizes divisible by 16, off the tile")
    add(small, "large common offset", Distribution("normal", mean=64.0, std=1.0))
    add(small, "large and small magnitudes", Distribution("normal", mean=0.0, std=100.0))
    out += _specials(call, groups, small, seed + len(out))
    add([1] * len(small), "one element")
    if 1 < len(small) <= _MAX_SINGLES:
        for index in range(len(small)):
            add([1 if at == index else size for at, size in enumerate(small)], "one size is one")
    scalars = other_scalars(call)
    for about, changed in (*((("other factors", scalars),) if scalars else ()), *flipped_flags(call)[:_MAX_FLAGS]):
        chosen = {place: size for group, size in zip(groups.groups, small, strict=True) for place in group}
        out.append(Variation(resize(changed, chosen, seed=seed + len(out)), about))
    return tuple(out)


def _beyond(recorded: int, tile: int) -> int:
    """Return a size that ends in a tail and is over the recorded one, or over many tiles where that is too large."""
    return max(tile, min(recorded, _MANY_TILES * tile, _LONGEST)) + tile // 2 + 5


async def strided(call: Call, groups: Groups, self_check: SelfCheck, *, seed: int) -> tuple[Variation, ...]:
    """Return inputs in memory with gaps, of those kinds that the original's own results do not depend on.

    An original that takes its arguments for contiguous reads the gaps, which hold something else each time.
    """
    if not groups.groups or call.kernel_launch:
        return ()
    small = [19 + 6 * index for index in range(len(groups.groups))]
    chosen = {place: size for group, size in zip(groups.groups, small, strict=True) for place in group}
    resized = resize(call, chosen, seed=seed)
    found = [Variation(spread(resized, how), about) for how, about in _SPREADS]
    found = [one for one in found if one.call != resized]
    outcomes = await self_check([one.call for one in found]) if found else ()
    return tuple(one for one, o in zip(found, outcomes, strict=False) if o.status == "equal" and o.outputs)


def _specials(call: Call, groups: Groups, sizes: Sequence[int], seed: int) -> list[Variation]:
    """NaN, infinities, signed zeros and subnormals sprinkled over every floating argument."""
    chosen = {place: size for group, size in zip(groups.groups, sizes, strict=True) for place in group}
    resized = resize(call, chosen, seed=seed)
    generator = np.random.default_rng(seed)

    def sprinkle(tensor: Tensor) -> Tensor:
        if not is_floating(tensor) or tensor.dtype.startswith("float8") or not tensor.elements:
            return tensor
        values = generator.standard_normal(tensor.elements).astype(np.float32)
        at = generator.integers(0, tensor.elements, size=6)
        # Rarely: a single NaN in a product already fills a row and a column of the result.
        for index, special in zip(at, (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40), strict=True):
            values[index] = special
        return dataclasses.replace(tensor, values=ExactValues(zlib.compress(_as_bytes(values, tensor.dtype))))

    if not any(is_floating(tensor) for tensor in all_tensors(call)):
        return []
    return [Variation(map_tensors(resized, sprinkle), "NaN, Inf, signed zeros, subnormals")]


def _as_bytes(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "bfloat16":
        # Round to nearest even on the upper 16 bits; NaN keeps its quiet bit.
        bits = values.view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return bytes(np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16).tobytes())
    with np.errstate(over="ignore"):
        return bytes(values.astype(np.dtype(dtype)).tobytes())
