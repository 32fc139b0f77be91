"""Which sizes of a call belong together: found by asking the original.

A variation on which the original raises or leaves its buffers says nothing about a candidate and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from tritonforge.domain.launch import Call, Scalar, Tensor, Value
from tritonforge.domain.messages import InputOutcome
from tritonforge.verify.resizing import KEPT, SMALLEST, Place, all_tensors, can_resize, leaves, places, resize
from tritonforge.verify.whole_numbers import holds_integers, told_of

SelfCheck = Callable[[Sequence[Call]], Awaitable[Sequence[InputOutcome]]]
"""Runs the original against itself on each call, and says which of them it can do at all."""

_MAX_PLACES = 12
BASE, STEP = 20, 8
_LOW, _LOW_STEP = 8, 4
"""The same for calls of so many sizes that `BASE` of each are many elements."""
_MANY_ELEMENTS = 1 << 17
_SMALLEST_ALONE = 2
_LONG, _LONG_LOW = 259, 131
OPERATIONS = 40_000
"""Operations on blocks that one size may cost: about a second in the interpreter, on one core."""
MANY = 6_000
"""The same for each of dozens of inputs, as far as smaller sizes cost less."""
_LEAST_LONG = 2 * BASE + 9
"""What a size may be, however much it costs."""
_HEAVY = 6_000
"""Operations of an input of small sizes that are too many for dozens of them."""
_TOO_HEAVY = 20_000
"""Operations of such sizes that are too many to find out what each of them costs."""
_HEAVY_LOW = 1_000
"""The same for sizes of `_LOW`, which are half as large or less."""
_MAX_LIGHTER = 4
_FEW = 2
_LESS = 0.7
"""Of the operations, what fewer samples have to save to be worth it."""
_MOST_ELEMENTS = 1 << 21
_MOST_KEPT = 2
_MOST_TRIALS = 10


@dataclass(frozen=True)
class Groups:
    """Places that change together. `note` says why nothing can be changed, when there are none.

    `operations`: how many operations on blocks an interpreted run takes whose sizes are `at` and `step` more for each
    further group, or less; 0 where it is not known. `each`: about how many more of them for one more element of each
    group, the other sizes being that small; empty where not known. `rates`: the same as parts of `operations`, where
    each size multiplies what the others cost; `alone`: about how many for each element of one that is long, the others
    being next to nothing.
    `least`: for groups that the original cannot make large alone, those that must be at least as large then.
    `kept`: places whose integers stay as they were recorded. `complete`: the original writes all of its outputs on such
    sizes; `overlapping`: the order of its writes decides there what it leaves. `light`: the call with fewer samples or
    heads, and its operations, where `operations` are many.
    """

    groups: tuple[tuple[Place, ...], ...]
    note: str = ""
    operations: int = 0
    least: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    each: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()
    kept: tuple[Place, ...] = ()
    complete: bool = False
    overlapping: bool = False
    at: int = BASE
    step: int = STEP
    light: tuple[Call, int] | None = None

    @property
    def base(self) -> list[int]:
        """The size of each group that `operations` are of."""
        return [self.at + self.step * index for index in range(len(self.groups))]

    def affordable(self, index: int, wanted: int, *, share: float = 1.0) -> int:
        """Return `wanted` for the size of a group, or less where so much would take long to interpret.

        `share`: of what one input may take at most.
        """
        each, most = (self.each[index] if self.each else 0.0), share * OPERATIONS
        return min(wanted, max(_LEAST_LONG, int(most / each))) | 1 if each * wanted > most else wanted

    def costs(self, sizes: Sequence[int]) -> float:
        """Return about how many operations a run on these sizes takes; 0 where nothing is known."""
        known = zip(sizes, self.each, strict=False)
        # Each size multiplies by as much as it was seen to where the others were small.
        grown = (
            1 + each * (s - self.at - self.step * i) / self.operations
            for i, (s, each) in enumerate(known)
            if self.operations
        )
        return self.operations * math.prod(max(one, 0.0) for one in grown)

    def bounded(
        self, sizes: Sequence[int], *, most: float = MANY, stay: Collection[int] = (), by: int = 1
    ) -> list[int]:
        """Return sizes that cost no more than `most` together, as far as smaller ones cost less.

        Args:
            sizes: what is wanted for each group.
            most: operations on blocks.
            stay: groups whose sizes stay.
            by: of what sizes stay multiples.
        """
        found = list(sizes)
        least = [min(size, by if by > 1 else 5 + 2 * index) for index, size in enumerate(found)]
        left = {i for i, each in enumerate(self.each) if each > 0} - set(stay)
        while left and self.costs(found) > most:
            at = max(left, key=lambda i: (found[i] / least[i], -i))
            if found[at] <= least[at]:
                break
            smaller = found[at] * 3 // 4 // by * by
            found[at] = max(least[at], smaller if by > 1 else smaller | 1)
        if by == 1 and found != list(sizes):
            # Sizes of one input differ, so that a swapped axis shows.
            for at in sorted(left):
                while found[at] > least[at] and found.count(found[at]) > 1:
                    found[at] = max(found[at] - 2, least[at])
        return found

    def sizes_of(self, call: Call) -> list[int]:
        """Return the size of each group on another input of the same call."""
        values = dict(leaves(call))
        return [_size(values.get(group[0].path), group[0]) for group in self.groups]

    def weigh(self, call: Call) -> float:
        """Return about how many operations an input takes; by its elements where nothing is known of operations."""
        if self.operations and self.each:
            return self.costs(self.sizes_of(call))
        return float(sum(tensor.elements for tensor in all_tensors(call)))

    def sized(self, sizes: Sequence[int]) -> dict[Place, int]:
        """Return the size of every place, given one for each group; what must be as large as another is made so."""
        wanted = list(sizes)
        for index, others in self.least.items():
            for other in others:
                # Sizes of one input differ, so that none hides behind another; equal ones were meant to be equal.
                if wanted[other] < wanted[index]:
                    wanted[other] = wanted[index] + 2 * (other + 1)
        found = dict.fromkeys(self.kept, KEPT)
        return found | {place: size for group, size in zip(self.groups, wanted, strict=True) for place in group}


def _size(value: Value | None, place: Place) -> int:
    if isinstance(value, Tensor) and 0 <= place.axis < len(value.shape):
        return value.shape[place.axis]
    if isinstance(value, Scalar) and place.axis < 0 and isinstance(value.value, int):
        return value.value
    return place.size


async def find_groups(call: Call, self_check: SelfCheck) -> Groups:
    """Find which sizes of `call` are independent of each other.

    Every extent of one recorded size starts out tied to the others of that size. Each is then changed alone, and in
    pairs, on small inputs; what the original accepts is independent.
    """
    reason = can_resize(call)
    if reason:
        return Groups((), reason)
    # Where nothing is large, what is small counts as a size, too.
    found = places(call) or places(call, smallest=_SMALLEST_ALONE)
    if not found:
        return Groups((), "it has no size to change")
    by_size: dict[int, list[Place]] = {}
    for place in found:
        by_size.setdefault(place.size, []).append(place)
    tied = tuple(tuple(group) for group in by_size.values())
    at, step = _smallest_base(call, tied)
    base = {place: at + step * index for index, group in enumerate(tied) for place in group}
    equal = dict.fromkeys(found, at)
    first, second = await self_check([resize(call, base, seed=1), resize(call, equal, seed=1)])
    groups, operations = tied, 0
    if first.status == "original-failed":
        if second.status == "original-failed":
            groups, one = await _resizable(call, Groups(tied, at=at, step=step), self_check)
            if one is None:
                return Groups((), f"the original fails on smaller sizes ({second.detail})")
            first, operations = one, one.operations
        else:
            return Groups((found,), complete=not second.unwritten, overlapping=second.overlapping, at=at, step=step)
    else:
        operations = min(one.operations for one in (first, second) if one.status != "original-failed")
        if len(found) <= _MAX_PLACES:
            groups = await _split(call, tied, base, self_check)
    told = told_of(leaves(call))
    # What is told of recorded integers and bound to no extent follows them.
    groups = tuple(g for g in groups if not all(p.axis < 0 and p.path in told for p in g)) or groups
    known = Groups(groups, operations=operations, at=at, step=step)
    known = replace(known, complete=not first.unwritten, overlapping=first.overlapping)
    known = await _defined(call, known, self_check)
    if known.operations > _TOO_HEAVY:
        known = replace(known, at=_LOW, step=_LOW_STEP)
    if known.at < BASE:
        # Each of so many sizes multiplies what the others cost: what all of them do has to be known.
        (one,) = await self_check([resize(call, known.sized(known.base), seed=1)])
        known = replace(known, operations=one.operations or known.operations)
    light, cheap = await _fewer_samples(call, known, self_check)
    least, each, rates = await _least(light, known, self_check)
    times = known.operations / cheap if cheap else 1.0
    each = alone = tuple(one * times for one in each)
    if known.at < BASE:
        each = tuple(max(one, rate * known.operations) for one, rate in zip(each, rates, strict=True))
    return replace(known, least=least, each=each, rates=rates, alone=alone, light=(light, cheap) if cheap else None)


def _smallest_base(call: Call, tied: Sequence[Sequence[Place]]) -> tuple[int, int]:
    """Return the size of the first group in trials, and by how much each further one is larger."""
    base = {place: BASE + STEP * index for index, group in enumerate(tied) for place in group}
    most = max((tensor.elements for tensor in all_tensors(resize(call, base, seed=1))), default=0)
    return (BASE, STEP) if most <= _MANY_ELEMENTS else (_LOW, _LOW_STEP)


async def _defined(call: Call, groups: Groups, self_check: SelfCheck) -> Groups:
    """Keep recorded integers where the original's results are not defined with others, and sizes that they need.

    Where slots are sorted by what they belong to, a list of them that is cut short leaves rows that nobody writes, and
    slots that are folded into fewer rows are written twice: such integers were made together, and stay together.
    """
    if groups.complete and not groups.overlapping:
        return groups
    whole = [(path, value) for path, value in leaves(call) if isinstance(value, Tensor) and holds_integers(value)]
    if not whole:
        return groups
    kept = tuple(Place(path, axis, size) for path, value in whole for axis, size in enumerate(value.shape))
    rest = tuple(left for group in groups.groups if (left := tuple(place for place in group if place not in kept)))
    for count in range(min(_MOST_KEPT, len(rest) - 1) + 1):
        some = [tuple(group for group in rest if group not in stay) for stay in combinations(rest, count)]
        trials = [replace(groups, groups=one, kept=kept) for one in some[:_MOST_TRIALS]]
        made = [resize(call, one.sized(one.base), seed=1) for one in trials]
        small = [(t, c) for t, c in zip(trials, made, strict=True) if _elements(c) <= _MOST_ELEMENTS]
        outcomes = await self_check([one for _, one in small]) if small else ()
        for (trial, _), one in zip(small, outcomes, strict=False):
            if one.status != "original-failed" and not one.unwritten and not one.overlapping:
                if one.operations > OPERATIONS:
                    return groups
                return replace(trial, operations=one.operations, complete=True, overlapping=False)
    return groups


def _elements(call: Call) -> int:
    return sum(tensor.elements for tensor in all_tensors(call))


async def _resizable(
    call: Call, tied: Groups, self_check: SelfCheck
) -> tuple[tuple[tuple[Place, ...], ...], InputOutcome | None]:
    """Return the sizes that can be small where all of them together cannot, and what became of that run.

    As few as possible stay as recorded. One may be bound to a number that is no size, or two to each other, as a width
    to its half.
    """
    for count in range(1, min(_MOST_KEPT, len(tied.groups) - 1) + 1):
        rests = [tuple(g for g in tied.groups if g not in kept) for kept in combinations(tied.groups, count)]
        some = [replace(tied, groups=rest) for rest in rests]
        every = [(one.groups, resize(call, one.sized(one.base), seed=1)) for one in some]
        trials = [(rest, one) for rest, one in every if _elements(one) <= _MOST_ELEMENTS]
        outcomes = await self_check([one for _, one in trials[:_MOST_TRIALS]])
        for (rest, _), outcome in zip(trials, outcomes, strict=False):
            if outcome.status != "original-failed":
                return rest, outcome
    return (), None


async def lightened(call: Call, groups: Groups, self_check: SelfCheck) -> tuple[Call, Groups]:
    """Return the call with less of what is no size (samples, heads), and what its sizes then cost.

    Both are as given where inputs do not take long to interpret, or not all sizes can be small.
    """
    if groups.light is None:
        return call, groups
    now, _ = groups.light
    sizes = groups.base
    # Sizes multiply each other's cost, so that each is doubled where the others are as they will be.
    doubled = [[2 * s if at == index else s for at, s in enumerate(sizes)] for index in range(len(sizes))]
    first, *more = await self_check([resize(now, groups.sized(one), seed=1) for one in (sizes, *doubled)])
    if any(one.status == "original-failed" for one in (first, *more)):
        return now, groups
    each = tuple(max(one.operations - first.operations, 0) / size for one, size in zip(more, sizes, strict=True))
    if groups.rates:
        # Twice a size may be as many tiles as before.
        each = tuple(max(one, rate * first.operations) for one, rate in zip(each, groups.rates, strict=True))
    return now, replace(groups, operations=first.operations, each=each)


async def _fewer_samples(call: Call, groups: Groups, self_check: SelfCheck) -> tuple[Call, int]:
    """Return the call with less of what is no size, and its operations; 0 where inputs do not take long as they are."""
    if groups.operations <= (_HEAVY if groups.at == BASE else _HEAVY_LOW):
        return call, 0
    base = groups.sized(groups.base)
    meant = [group for group in meanings(call, groups) if group[0].size > _FEW]
    # What the original wants equal changes together or not at all.
    found = [*meant, *((place,) for group in meant if len(group) > 1 for place in group if place.axis >= 0)]
    # What saves is told on the same sizes: `groups.operations` may be those of a run whose sizes were equal.
    (before,) = await self_check([resize(call, base, seed=1)])
    if before.status == "original-failed":
        return call, 0
    now, most, changed = call, before.operations, dict[Place, int]()
    for group in found[:_MAX_LIGHTER]:
        wanted = {**changed, **dict.fromkeys(group, _FEW)}
        (outcome,) = await self_check([resize(call, {**base, **wanted}, seed=1)])
        if outcome.status != "original-failed" and outcome.operations < most * _LESS:
            now, most, changed = resize(call, wanted, seed=call.seed), outcome.operations, wanted
    return now, most


async def _least(
    call: Call, known: Groups, self_check: SelfCheck
) -> tuple[dict[int, tuple[int, ...]], tuple[float, ...], tuple[float, ...]]:
    """Find the sizes that the original cannot make large alone, those that must grow with each, and what each costs.

    The costs are those of one more element: in operations, the others being next to nothing, and as `Groups.rates`.

    A row that is read along another's length leaves its buffer only when it is much shorter: everything else is next
    to nothing here.
    """
    groups = known.groups
    n = len(groups)
    if n > _MAX_PLACES:
        return {}, (), ()
    tiny = [3 + 2 * index for index in range(n)]

    far = _LONG if known.at == BASE else _LONG_LOW

    def with_long(long: Sequence[int]) -> Call:
        sizes = [far + 2 * i if i in long else size for i, size in enumerate(tiny)]
        return resize(call, known.sized(sizes), seed=1)

    first, *alone = await self_check([with_long(()), *(with_long((i,)) for i in range(n))])
    if first.status == "original-failed":
        return {}, (), ()
    spent = [max(one.operations - first.operations, 0) for one in alone]
    each = tuple(more / (far + 2 * i - size) for i, (more, size) in enumerate(zip(spent, tiny, strict=True)))
    grown = [one / max(first.operations, 1) for one in each]
    rates = tuple(one / (1 + one * (size - small)) for one, size, small in zip(grown, known.base, tiny, strict=True))
    stuck = [i for i, one in enumerate(alone) if one.status == "original-failed"]
    pairs = [(i, j) for i in stuck for j in range(n) if i != j]
    outcomes = await self_check([with_long(pair) for pair in pairs]) if pairs else ()
    works = {pair for pair, one in zip(pairs, outcomes, strict=False) if one.status != "original-failed"}
    found: dict[int, tuple[int, ...]] = {}
    for i in stuck:
        partners = [j for j in range(n) if (i, j) in works]
        larger = tuple(j for j in range(n) if j != i and groups[j][0].size >= groups[i][0].size)
        # The one of its own size, where there are several that would do.
        partners.sort(key=lambda j, i=i: abs(groups[j][0].size - groups[i][0].size))  # type: ignore[misc]
        found[i] = (partners[0],) if partners else larger
    return found, each, rates


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
            loose = [place for group in members if group not in grows for place in group]
            alone = {group[0] for group in members if group not in stuck and len(group) == 1}
            out += grows
            out += await _smallest(call, loose, alone, base, self_check)
        else:
            out += members
    return tuple(out)


async def _smallest(
    call: Call, loose: list[Place], alone: set[Place], base: dict[Place, int], self_check: SelfCheck
) -> list[tuple[Place, ...]]:
    """Divide places of one size into sets that can grow without each other, as the rows and columns of a square can.

    Args:
        call: the recorded call.
        loose: the places.
        alone: those of them that can grow alone. What cannot may need them all the same.
        base: a size for every place.
        self_check: runs the original.
    """
    found: list[tuple[Place, ...]] = []
    left = sorted(loose, key=lambda place: place in alone)
    while left and left[0] not in alone:
        chosen = list(left)
        for other in left[1:]:
            fewer = [place for place in chosen if place != other]
            (outcome,) = await self_check([resize(call, {**base, **{p: base[p] + 5 for p in fewer}}, seed=1)])
            if outcome.status != "original-failed":
                chosen = fewer
        found.append(tuple(place for place in loose if place in chosen))
        left = [place for place in left if place not in chosen]
    return found + [(place,) for place in left]


def _tied(a: Place, b: Place, free: set[Place], paired: set[tuple[Place, Place]]) -> bool:
    """Two places belong together when at least one cannot change alone but both can together."""
    return (a in _paired_with(b, paired)) and not (a in free and b in free)


def _paired_with(place: Place, paired: set[tuple[Place, Place]]) -> set[Place]:
    """Return the places that were changed together with `place` without a complaint of the original."""
    return {b for a, b in paired if a == place} | {a for a, b in paired if b == place}


def meanings(call: Call, groups: Groups) -> tuple[tuple[Place, ...], ...]:
    """Return the extents too small to count as sizes (channels, heads), those of one extent together."""
    taken = {place for group in groups.groups for place in group}
    found: dict[int, list[Place]] = {}
    for place in places(call, smallest=_SMALLEST_ALONE):
        if place.size < SMALLEST and place not in taken:
            found.setdefault(place.size, []).append(place)
    return tuple(tuple(group) for group in found.values() if any(place.axis >= 0 for place in group))
