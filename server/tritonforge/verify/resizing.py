"""Changing the sizes of a call: the same arguments with other extents, strides and values following.

A *place* is one extent of one tensor argument, or an integer argument. Places that must change together (the inner
dimensions of a product, an integer that repeats a tensor's length) form a *group*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tritonforge.domain.launch import (
    Call,
    Distribution,
    Entries,
    ExactValues,
    Items,
    Scalar,
    Tensor,
    Value,
    ValuePolicy,
)
from tritonforge.verify.whole_numbers import exactly, indices, integers_of, starts, told_of

KEPT = -1
"""In the place of a size: the extent stays, and the integers of its tensor stay as they were recorded."""
SMALLEST = 17
"""Extents below this stay as they are: they are more often a meaning (channels, heads, 2 halves) than a size."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Place:
    """An extent: `path` leads to the argument, `axis` is the tensor's dimension, or -1 for an integer argument."""

    path: Path
    axis: int
    size: int


def places(call: Call, *, smallest: int = SMALLEST) -> tuple[Place, ...]:
    """Return every place of `call` of at least `smallest` whose size may be changed, in argument order."""
    extents = {size for tensor in all_tensors(call) for size in tensor.shape}
    found: list[Place] = []
    for path, value in leaves(call):
        if isinstance(value, Tensor):
            found += [Place(path, axis, size) for axis, size in enumerate(value.shape) if size >= smallest]
        elif isinstance(value, Scalar) and type(value.value) is int and value.value in extents:
            # An integer argument is a size only where a tensor has that length.
            found += [Place(path, -1, value.value)] * (value.value >= smallest)
    return tuple(found)


def can_resize(call: Call) -> str:
    """Return why the sizes of `call` cannot be changed, or an empty text when they can."""
    buffers: dict[int, Tensor] = {}
    for _, value in leaves(call):
        if not isinstance(value, Tensor) or value.buffer < 0:
            continue
        other = buffers.setdefault(value.buffer, value)
        if (other.shape, other.strides, other.offset) != (value.shape, value.strides, value.offset):
            return "two arguments are different views of one buffer"
    return ""


def resize(call: Call, sizes: Mapping[Place, int], *, seed: int, values: ValuePolicy | None = None) -> Call:
    """Return `call` with each place in `sizes` set to its new size.

    Strides keep their order, broadcast (0) strides stay 0, padded rows stay padded. Index-like tensors keep their
    recorded values as far as the new shape holds them, folded into the smallest new extent so that they stay valid
    indices; those that differ from each other still do. Integers that only grow, up to an extent that gets another
    size, say where rows begin: they grow up to the new size. A tensor with an extent that is `KEPT` keeps its integers,
    whatever the other sizes become. A number that is told of recorded integers (the longest of the
    rows that they say) and has no size of its own is told of what became of them. `values` replaces the policy of
    floating tensors, but for those that are outputs nobody wrote yet.
    """
    kept = frozenset(place.path for place, size in sizes.items() if size == KEPT)
    sizes = {place: size for place, size in sizes.items() if size != KEPT}
    room = _Room.of(sizes, kept)
    lengths = {
        tensor.elements: _elements(_new_shape(tensor, path, sizes))
        for path, tensor in leaves(call)
        if isinstance(tensor, Tensor) and tensor.elements >= SMALLEST
    }

    def change(path: Path, value: Value) -> Value:
        if isinstance(value, Tensor):
            return _resized(value, path, sizes, room, values)
        if isinstance(value, Scalar) and type(value.value) is int:
            place = Place(path, -1, value.value)
            if path in told:
                return Scalar(told[path].of(followed[told[path].path]))
            # An element count given beside its tensor follows the tensor.
            return Scalar(sizes[place] if place in sizes else lengths.get(value.value, value.value))
        return value

    told = {
        path: one
        for path, one in told_of(leaves(call)).items()
        if Place(path, -1, one.number) not in sizes and one.number not in lengths
    }
    wanted = {one.path for one in told.values()}
    followed = {
        path: _resized(tensor, path, sizes, room, values)
        for path, tensor in leaves(call)
        if path in wanted and isinstance(tensor, Tensor)
    }
    return dataclasses.replace(
        call,
        arguments=tuple(_map(value, (index,), change) for index, value in enumerate(call.arguments)),
        keywords=tuple((name, _map(value, (name,), change)) for name, value in call.keywords),
        seed=seed,
        launches=(),
    )


@dataclass(frozen=True)
class _Room:
    """What indices may be: below `smallest`, or, for those that say where rows begin, up to an extent's new size.

    `kept`: the tensors whose integers stay.
    """

    smallest: int
    extents: Mapping[int, int]
    kept: frozenset[Path]

    @classmethod
    def of(cls, sizes: Mapping[Place, int], kept: frozenset[Path]) -> _Room:
        extents: dict[int, int] = {}
        for place, size in sizes.items():
            extents[place.size] = min(size, extents.get(place.size, size))
        return cls(min(sizes.values(), default=0), extents, kept)


def map_tensors(call: Call, change: Callable[[Tensor], Tensor]) -> Call:
    """Return `call` with `change` applied to every tensor argument."""

    def each(_path: Path, value: Value) -> Value:
        return change(value) if isinstance(value, Tensor) else value

    return with_leaves(call, each)


def all_tensors(call: Call) -> tuple[Tensor, ...]:
    """Return every tensor argument of `call`."""
    return tuple(value for _, value in leaves(call) if isinstance(value, Tensor))


def leaves(call: Call) -> Iterator[tuple[Path, Value]]:
    """Yield every argument of `call`, those inside lists and dicts one by one, with the path that leads to it."""
    for index, value in enumerate(call.arguments):
        yield from _walk(value, (index,))
    for name, value in call.keywords:
        yield from _walk(value, (name,))


def with_leaves(call: Call, change: Callable[[Path, Value], Value]) -> Call:
    """Return `call` with `change` applied to every leaf: what is no list, tuple or dict."""
    return dataclasses.replace(
        call,
        arguments=tuple(_map(value, (index,), change) for index, value in enumerate(call.arguments)),
        keywords=tuple((name, _map(value, (name,), change)) for name, value in call.keywords),
    )


def is_floating(tensor: Tensor) -> bool:
    """Tell whether the tensor holds floating-point numbers."""
    return tensor.dtype.startswith(("float", "bfloat"))


def is_unset(tensor: Tensor) -> bool:
    """Tell whether the tensor is memory that nobody wrote yet: an output."""
    return isinstance(tensor.values, Distribution) and tensor.values.kind == "uninitialised"


def form_of(call: Call) -> object:
    """Return what two calls have in common whose tensors differ in values alone: what a kernel is specialised by."""
    return tuple(
        (path, (v.shape, v.strides, v.dtype, v.offset) if isinstance(v, Tensor) else v) for path, v in leaves(call)
    )


def describe(call: Call) -> str:
    """Return the arguments in one line: `fp32[37, 45]`, integers and floats as they are, seed last."""
    parts = [_text(value) for value in call.arguments]
    parts += [f"{name}={_text(value)}" for name, value in call.keywords]
    return f"{call.function}({', '.join(parts)}), seed {call.seed}"


def _text(value: Value) -> str:
    if isinstance(value, Tensor):
        name = value.dtype.replace("float", "fp").replace("bfp", "bf")
        return f"{name}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Scalar):
        return repr(value.value)
    if isinstance(value, Items):
        return "[" + ", ".join(_text(item) for item in value.items) + "]"
    if isinstance(value, Entries):
        return "{" + ", ".join(f"{name}: {_text(item)}" for name, item in value.items) + "}"
    return getattr(value, "name", "…")


def _walk(value: Value, path: Path) -> Iterator[tuple[Path, Value]]:
    if isinstance(value, Items):
        for index, item in enumerate(value.items):
            yield from _walk(item, (*path, index))
    elif isinstance(value, Entries):
        for name, item in value.items:
            yield from _walk(item, (*path, name))
    else:
        yield path, value


def _map(value: Value, path: Path, change: Callable[[Path, Value], Value]) -> Value:
    if isinstance(value, Items):
        return Items(value.kind, tuple(_map(item, (*path, i), change) for i, item in enumerate(value.items)))
    if isinstance(value, Entries):
        return Entries(tuple((name, _map(item, (*path, name), change)) for name, item in value.items))
    return change(path, value)


def _resized(tensor: Tensor, path: Path, sizes: Mapping[Place, int], room: _Room, values: ValuePolicy | None) -> Tensor:
    shape = _new_shape(tensor, path, sizes)
    replaced = values if values and is_floating(tensor) and not is_unset(tensor) else None
    if shape == tensor.shape and (is_floating(tensor) or path in room.kept):
        return dataclasses.replace(tensor, values=replaced) if replaced else tensor
    policy = replaced or _folded(tensor, shape, room)
    if shape == tensor.shape:
        return dataclasses.replace(tensor, values=policy)
    return dataclasses.replace(tensor, shape=shape, strides=_strides(tensor, shape), offset=0, values=policy)


def _new_shape(tensor: Tensor, path: Path, sizes: Mapping[Place, int]) -> tuple[int, ...]:
    return tuple(sizes.get(Place(path, axis, size), size) for axis, size in enumerate(tensor.shape))


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _strides(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [0] * len(shape)
    step, expected = 1, 1
    for axis in sorted(range(len(shape)), key=lambda a: (tensor.strides[a], -a)):
        old = tensor.strides[axis]
        if old == 0:
            continue
        if old > expected:
            step += min(old - expected, 8)  # rows were padded, or a slice of a wider tensor: keep a gap
        strides[axis] = step
        step *= max(shape[axis], 1)
        expected = old * max(tensor.shape[axis], 1)
    return tuple(strides)


def _folded(tensor: Tensor, shape: tuple[int, ...], room: _Room) -> ValuePolicy:
    policy = tensor.values
    if is_floating(tensor):
        return Distribution() if isinstance(policy, ExactValues) else policy
    if isinstance(policy, ExactValues):
        wanted = _elements(shape)
        recorded = integers_of(tensor)
        if recorded.size == 0:
            return Distribution("zeros")
        kept = recorded if tensor.dtype == "bool" else starts(recorded, wanted, room.extents)
        if kept is None or kept.size != wanted:
            kept = indices(np.resize(recorded, wanted), room.smallest)
        return exactly(kept)
    if not isinstance(policy, Distribution):
        return policy
    if policy.kind == "offsets" and int(policy.high) in room.extents:
        return dataclasses.replace(policy, high=float(room.extents[int(policy.high)]))
    if policy.kind == "uniform" and room.smallest > 0 and policy.high >= room.smallest:
        return dataclasses.replace(policy, low=min(policy.low, room.smallest - 1), high=float(room.smallest - 1))
    return policy
