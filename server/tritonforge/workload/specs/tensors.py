"""`dtype[extent, …]` and what may follow it → `Tensor`."""

from __future__ import annotations

import dataclasses

from tritonforge.domain.launch import Symbol, Tensor
from tritonforge.workload.specs.dtypes import KNOWN, dtype_name, is_floating, item_bytes
from tritonforge.workload.specs.errors import nearest
from tritonforge.workload.specs.expressions import Scope, integer
from tritonforge.workload.specs.recipes import policy_of
from tritonforge.workload.specs.syntax import TensorNode, View

MAX_ELEMENTS = 1 << 40
_MAX_AXES = 25
_ALIGNED = 256
_VIEWS = ("T", "mT", "transpose", "cpu", "requires_grad")


def tensor_of(node: TensorNode, scope: Scope, name: str) -> Tensor:
    """Return the tensor that a node describes; `name` is what the spec calls it.

    Raises:
        SpecError: at the dtype, extent, stride, view or recipe that is wrong.
    """
    tensor = _shared(node, scope) if node.base is not None else _own(node, scope, name)
    for view in node.views:
        tensor = _viewed(tensor, view, scope)
    return tensor


def _shared(node: TensorNode, scope: Scope) -> Tensor:
    assert node.base is not None
    if node.base not in scope.values:
        full = dtype_name(node.base)
        if full is not None:
            raise scope.place.error(node.at, f"{node.base!r} is a dtype without extents.", "As in fp16[M, K].T.")
        raise scope.undefined(node.base, node.at)
    found = scope.lookup(node.base, node.at)
    if not isinstance(found, Tensor):
        raise scope.place.error(node.at, f"{node.base!r} is no tensor.")
    if node.recipe is not None:
        raise scope.place.error(node.recipe.at, f"the values are those of {node.base!r}.", "Give the recipe there.")
    return found


def _own(node: TensorNode, scope: Scope, name: str) -> Tensor:
    place = scope.place
    dtype = _dtype(node, scope)
    if len(node.extents) > _MAX_AXES:
        raise place.error(node.extents[_MAX_AXES].at, f"a tensor has at most {_MAX_AXES} axes.")
    shape: list[int] = []
    for extent in node.extents:
        size = integer(extent, scope, "an extent")
        if size < 0:
            raise place.error(extent.at, f"the extent {size} is negative.")
        shape.append(size)
    strides = _strides(node, shape, scope)
    offset = 0 if node.offset is None else integer(node.offset, scope, "an offset")
    if node.offset is not None and offset < 0:
        raise place.error(node.offset.at, f"the offset {offset} is negative.")
    span = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True) if size)
    elements = 1
    for size in shape:
        elements *= size
    if max(span, elements) > MAX_ELEMENTS:
        raise place.error(node.at, f"a tensor of {max(span, elements)} elements is larger than any GPU's memory.")
    distance = offset * item_bytes(dtype)
    return Tensor(
        tuple(shape),
        tuple(strides),
        dtype,
        alignment=_ALIGNED if distance == 0 else min(_ALIGNED, distance & -distance),
        buffer=scope.buffers.get(name, -1),
        offset=offset,
        values=policy_of(node.recipe, dtype, elements, scope),
    )


def _dtype(node: TensorNode, scope: Scope) -> str:
    if node.dtype in scope.values:  # `x=T[M] T in [fp16, bf16]`
        found = scope.lookup(node.dtype, node.at)
        full = dtype_name(found.name) if isinstance(found, Symbol) and found.kind == "dtype" else None
        if full is None:
            raise scope.place.error(node.at, f"{node.dtype!r} is no dtype.", "As in T in [fp16, bf16].")
        return full
    full = dtype_name(node.dtype)
    if full is None:
        raise scope.place.error(node.at, f"unknown dtype {node.dtype!r}.", nearest(node.dtype, KNOWN, "Known"))
    return full


def _strides(node: TensorNode, shape: list[int], scope: Scope) -> list[int]:
    if node.strides is None:
        strides: list[int] = []
        step = 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= max(size, 1)
        return strides
    found = []
    for stride in node.strides.items:
        step = integer(stride, scope, "a stride")
        if step < 0:
            raise scope.place.error(stride.at, f"the stride {step} is negative.")
        found.append(step)
    if len(found) != len(shape):
        axes = f"{len(shape)} {'axis' if len(shape) == 1 else 'axes'}"
        raise scope.place.error(node.strides.at, f"{len(found)} strides for {axes}.", "Give one for each extent.")
    return found


def _viewed(tensor: Tensor, view: View, scope: Scope) -> Tensor:
    place = scope.place
    if view.name not in _VIEWS:
        raise place.error(view.at, f"a tensor has no {view.name!r} here.", nearest(view.name, _VIEWS, "Known"))
    rank = len(tensor.shape)
    if view.name != "transpose" and view.arguments:
        raise place.error(view.arguments[0].at, f"{view.name} takes no arguments.")
    if view.name == "cpu":
        return dataclasses.replace(tensor, device="cpu")
    if view.name == "requires_grad":
        if not is_floating(tensor.dtype):
            raise place.error(view.at, f"only floating tensors have gradients, not {tensor.dtype}.")
        return dataclasses.replace(tensor, requires_grad=True)
    if view.name == "transpose":
        if len(view.arguments) != 2:
            raise place.error(view.at, "transpose takes two axes.", "As in fp16[B, T, H, D].transpose(1, 2).")
        axes = []
        for argument in view.arguments:
            axis = integer(argument, scope, "an axis")
            if not -rank <= axis < rank:
                raise place.error(argument.at, f"there is no axis {axis} among {rank}.")
            axes.append(axis % rank)
        return _transposed(tensor, axes[0], axes[1])
    if rank < 2 or (view.name == "T" and rank != 2):
        wanted = "2 axes" if view.name == "T" else "2 axes or more"
        raise place.error(view.at, f".{view.name} needs {wanted}, not {rank}.", "Use transpose(i, j).")
    return _transposed(tensor, rank - 2, rank - 1)


def _transposed(tensor: Tensor, first: int, second: int) -> Tensor:
    order = list(range(len(tensor.shape)))
    order[first], order[second] = order[second], order[first]
    return dataclasses.replace(
        tensor, shape=tuple(tensor.shape[i] for i in order), strides=tuple(tensor.strides[i] for i in order)
    )
