"""Which launches of a plan are tried: what each varies, and which sizes the original leaves unchecked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritonforge.domain.launch import Scalar
from tritonforge.domain.messages import CallExtents
from tritonforge.verify.direct_plan import MOST_PROGRAMS, PAD, Changes, Launch, Layout, Plan, Sizes, Wish

_MOST_GROWN = 64
_MOST_STEPPED = 4


def base(plan: Plan, *, even: bool) -> Launch:
    """Return the launch that others are variations of."""
    sizes = plan.even() if even else plan.ragged()
    strides, top = plan.layout(sizes, "rows")
    about = "padded rows, sizes that divide evenly" if even else "padded rows, sizes off every boundary"
    return _wish(plan, about, {**sizes, **strides}), sizes, top


def steps(plan: Plan) -> tuple[tuple[Launch, ...], tuple[tuple[str, int], ...]]:
    """Return launches that show which sizes the original checks: what it touches follows those, one by one.

    The first has the sizes of `base`; then come two for each size that is no number of programs: one more, and a tile
    more, whose names and distances are the second value. All have the same strides.
    """
    sizes = plan.ragged()
    far = {s: min(plan.tile, plan.recorded[s] - sizes[s]) for s in sizes if s not in plan.whole}
    varied = [(s, n) for s, n in far.items() if n > 1][:_MOST_STEPPED]
    strides, top = plan.layout({**sizes, **{s: sizes[s] + n for s, n in varied}}, "rows")
    chosen = [sizes, *({**sizes, s: sizes[s] + by} for s, n in varied for by in (1, n))]
    launches = tuple((_wish(plan, "other sizes", {**one, **strides}), one, top) for one in chosen)
    return launches, tuple(varied)


def unchecked(
    plan: Plan, launches: Sequence[Launch], varied: Sequence[tuple[str, int]], found: Sequence[CallExtents]
) -> str:
    """Name a size that the original does not check, if there is one: it works on whole tiles, whatever the size says.

    Args:
        plan: the launch.
        launches: those of `steps`.
        varied: the sizes and distances of `steps`.
        found: what the launches of `steps` touch.
    """
    first = _highs(found[0])
    programs = [math.prod(wish.grid) for wish, _, _ in launches]
    for index, (size, distance) in enumerate(varied):
        near, far = _highs(found[1 + 2 * index]), _highs(found[2 + 2 * index])
        follows = [b for b in first if near[b] != first[b]]
        uneven = [b for b in first if far[b] - first[b] != distance * (near[b] - first[b])]
        if any(b not in uneven for b in follows):
            # What each program leaves in a place of its own (partial sums) follows the grid.
            more, many = (programs[at] - programs[0] for at in (1 + 2 * index, 2 + 2 * index))
            uneven = [b for b in uneven if not many or (far[b] - first[b]) * more != (near[b] - first[b]) * many]
        # A buffer that is as long as this size, and no other, has to follow it.
        alone = [s for s in plan.sizes if plan.recorded[s] == plan.recorded[size]] == [size]
        own = [b for b, ds in plan.dimensions.items() if alone and any(d.extent == plan.recorded[size] for d in ds)]
        if uneven or not follows or any(b in first and b not in follows for b in own):
            return size
    return ""


def _highs(found: CallExtents) -> dict[str, int]:
    return {b.parameter: b.high for b in found.buffers}


def wishes(plan: Plan, *, even: bool) -> tuple[Launch, ...]:
    """Return the other launches to try, each with its sizes and layout, the most telling first."""
    sizes = plan.even() if even else plan.ragged()
    out: list[Launch] = [base(plan, even=even)]

    def add(about: str, chosen: Sizes, how: Layout, changed: Changes | None = None, *, within: bool = False) -> None:
        strides, top = plan.layout(chosen, how)
        wish = _wish(plan, about, {**chosen, **strides, **(changed or {})}, within=within)
        if math.prod(wish.grid) <= MOST_PROGRAMS and all(wish.values != one.values for one, _, _ in out):
            out.append((wish, chosen, top))

    if plan.strides:
        add("gaps between elements", sizes, "elements")
        add("transposed memory", sizes, "transposed")
    if not even and plan.over() != sizes:
        add("sizes over a tile, with a tail", plan.over(), "rows")
    numbers = {n: v.value for n, v in plan.launch.arguments if isinstance(v, Scalar)}
    if plan.factors:
        new = {name: float(numbers[name] or 0) * (0.75 - 0.0625 * i) or 0.25 for i, name in enumerate(plan.factors)}
        add("other factors", sizes, "rows", new)
    if plan.others:
        add("other whole numbers", sizes, "rows", {name: _neighbour(plan.recorded[name]) for name in plan.others})
    grown = _grown(plan, sizes)
    if grown:
        add("more programs than were recorded", grown, "rows")
    constexprs = {n: v.value for n, v in plan.launch.constexprs if isinstance(v, Scalar)}
    for name in plan.flags[:2]:
        flipped = not {**numbers, **constexprs}[name]
        add(f"{name}={flipped}", sizes, "rows", {name: flipped}, within=True)
    if plan.sizes and not even:
        add("sizes of one", dict.fromkeys(plan.sizes, 1), "tight")
    return tuple(out[1:])


def _wish(plan: Plan, about: str, values: Changes, *, within: bool = False) -> Wish:
    return Wish(about, values, plan.grid(values), within)


def _neighbour(value: int) -> int:
    """Return another number: a flag turned round, a count one smaller, so that nothing that was promised is passed."""
    return 1 - value if value in (0, 1) else value - 1


def _grown(plan: Plan, sizes: Sizes) -> dict[str, int]:
    """Return sizes with which one axis of the grid is longer than recorded, where that is few programs."""
    for index, axis in enumerate(plan.axes):
        recorded = plan.launch.grid[index]
        if axis.grows not in sizes or recorded < 2 or axis.ties:
            continue
        size = plan.recorded[axis.grows]
        per_program = 1 if axis.whole else -(-size // recorded)
        grown = {**sizes, axis.grows: size + (PAD if axis.whole else per_program + per_program // 2)}
        if math.prod(plan.grid(grown)) <= _MOST_GROWN:
            return grown
    return {}
