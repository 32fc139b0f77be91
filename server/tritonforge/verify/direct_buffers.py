"""The buffers of direct launches: flat memory, first with room to spare, then of exactly the extent that is touched."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Mapping

import numpy as np

from tritonforge.domain.launch import Call, Distribution, ExactValues, KernelLaunch, Scalar, Tensor, Value, ValuePolicy
from tritonforge.domain.messages import CallExtents
from tritonforge.verify.direct_plan import UNTOLD, Plan, Sizes, Wish
from tritonforge.verify.resizing import is_floating

_LAST_OFFSET = 20
MOST_ELEMENTS = 1 << 22


def roomy(plan: Plan, wish: Wish, sizes: Sizes, top: Mapping[int, int], *, function: str, seed: int) -> Call | None:
    """Return the launch with buffers that are larger than it can need; None when that is too much to interpret."""
    rooms = {name: plan.room(name, sizes, top) for name in plan.dimensions}
    if max(rooms.values(), default=0) > MOST_ELEMENTS:
        return None
    return _call(plan, wish, rooms, {}, sizes, function=function, seed=seed)


def fitted(
    plan: Plan, wish: Wish, found: CallExtents, least: Mapping[str, int], sizes: Sizes, *, function: str, seed: int
) -> Call:
    """Return the launch with buffers that end where the original stops, or at `least` elements where that is more."""
    highs = {b.parameter: max(b.high, least.get(b.parameter, 0), 1) for b in found.buffers}
    unread = {b.parameter: b.written and not b.read for b in found.buffers}
    return _call(plan, wish, highs, unread, sizes, function=function, seed=seed)


def as_launched(
    plan: Plan, lengths: Mapping[str, int], unread: Mapping[str, bool], *, function: str, seed: int
) -> Call:
    """Return the launch as it was recorded, with buffers of `lengths` elements; those in `unread` hold nothing."""
    sizes = {s: plan.recorded[s] for s in plan.sizes}
    wish = Wish("as the host function launches it", {}, plan.launch.grid)
    return _call(plan, wish, lengths, unread, sizes, function=function, seed=seed)


def least_spans(plan: Plan, found: CallExtents, sizes: Sizes, top: Mapping[int, int]) -> dict[str, int]:
    """Return how much the sizes span of those buffers that the original does not touch to the end.

    A kernel that reads only part of a tensor may be replaced by one that reads more of it, but none beyond it.
    """
    spans = {b.parameter: plan.spans(b.parameter, sizes, top) for b in found.buffers if b.high}
    least = {name: min(own or plan.highs(name, sizes, top), default=0) for name, own in spans.items()}
    return {b.parameter: least[b.parameter] for b in found.buffers if b.high and b.high < least[b.parameter]}


def _call(
    plan: Plan,
    wish: Wish,
    lengths: Mapping[str, int],
    unread: Mapping[str, bool],
    sizes: Sizes,
    *,
    function: str,
    seed: int,
) -> Call:
    launch = plan.launch
    shared = _shared(plan)
    smallest = min([*sizes.values(), UNTOLD])
    largest = max((d.extent for dimensions in plan.dimensions.values() for d in dimensions), default=0)
    keywords: list[tuple[str, Value]] = []
    for name, value in (*launch.arguments, *launch.constexprs):
        if isinstance(value, Tensor):
            family = shared.get(name, (name,))
            length = max(lengths.get(one, 1) for one in family)
            fresh = all(unread.get(one, False) for one in family)
            policy = Distribution("uninitialised") if fresh else _policy(value, length, seed, smallest, largest)
            buffer = value.buffer if name in shared else -1
            flat = dataclasses.replace(
                value, shape=(length,), strides=(1,), offset=0, buffer=buffer, values=policy, requires_grad=False
            )
            keywords.append((name, flat))
        else:
            keywords.append((name, Scalar(wish.values[name]) if name in wish.values else value))
    grid = tuple(str(n) for n in wish.grid)
    return Call("", launch.kernel_file, function, (), tuple(keywords), seed=seed, kernel_launch=KernelLaunch(grid))


def _shared(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the arguments that are one tensor, each with all of them; different views of a buffer are kept apart."""
    by_view: dict[tuple[object, ...], list[str]] = {}
    for name, value in plan.launch.arguments:
        if isinstance(value, Tensor) and value.buffer >= 0:
            view = (value.buffer, value.offset, value.shape, value.strides, value.dtype)
            by_view.setdefault(view, []).append(name)
    views = [view[0] for view in by_view]
    return {
        name: tuple(names)
        for view, names in by_view.items()
        if len(names) > 1 and views.count(view[0]) == 1
        for name in names
    }


def _policy(tensor: Tensor, length: int, seed: int, smallest: int, largest: int) -> ValuePolicy:
    if is_floating(tensor) or tensor.dtype.startswith("complex"):
        recorded = tensor.values
        return recorded if isinstance(recorded, Distribution) and recorded.kind != "uninitialised" else Distribution()
    values = _whole_numbers(tensor, length, seed)
    if values.size > 1 and values[0] == 0 and values[-1] > _LAST_OFFSET and bool((np.diff(values) >= 0).all()):
        # Cumulative lengths: as many pieces, but short ones.
        values = values.astype(np.int64) * _LAST_OFFSET // values[-1]
    elif tensor.dtype != "bool" and smallest and values.size and values.max() < largest:
        # Less than a size: indices, which must stay valid in smaller tensors.
        values = np.where(values >= smallest, values % smallest, values)
    return ExactValues(zlib.compress(values.astype(np.dtype(tensor.dtype)).tobytes(), 1))


def _whole_numbers(tensor: Tensor, length: int, seed: int) -> np.ndarray:
    """Return `length` values like the recorded ones, the first of them the same for every length."""
    policy = tensor.values
    dtype = np.dtype(tensor.dtype)
    if isinstance(policy, ExactValues):
        recorded = np.frombuffer(zlib.decompress(policy.data), dtype=dtype)
        return np.resize(recorded, length) if recorded.size else np.zeros(length, dtype)
    if not isinstance(policy, Distribution) or policy.kind in ("zeros", "uninitialised"):
        return np.zeros(length, dtype)
    generator = np.random.default_rng(seed)
    if policy.kind == "bernoulli" or dtype == np.bool_:
        share = policy.mean if 0 < policy.mean < 1 else 0.5
        return (generator.random(length) < share).astype(dtype)
    low, high = math.ceil(policy.low), math.floor(policy.high)
    if policy.kind == "constant":
        return np.full(length, low, dtype)
    if policy.kind in ("arange", "permutation", "offsets"):
        return (low + np.arange(length) % max(1, high - low + 1)).astype(dtype)
    if policy.kind == "normal":
        # What a launch is compiled with has no values. Indices may not be negative, where they are not known.
        low, high = max(0, math.ceil(policy.mean - 3 * policy.std)), math.floor(policy.mean + 3 * policy.std)
    values = generator.random(length) * (max(low, high) - low + 1)
    return (low + np.floor(values)).astype(dtype)
