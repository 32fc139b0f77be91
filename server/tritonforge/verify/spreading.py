"""The same arguments in other memory: gaps, another order of dimensions, another start, one element for many."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tritonforge.domain.launch import Call, Tensor
from tritonforge.verify.resizing import Path, is_unset, with_leaves

Spread = Literal["rows", "transposed", "elements", "offset", "expanded rows", "expanded elements"]

SPREADS: tuple[tuple[Spread, str], ...] = (
    ("rows", "gaps between rows"),
    ("transposed", "transposed memory"),
    ("elements", "gaps between elements"),
    ("offset", "memory that starts off 16 bytes"),
    ("expanded rows", "one row expanded to all"),
    ("expanded elements", "one element expanded to a row"),
)
"""Every kind of memory, with words for it."""

_GAP = 3


def spread(call: Call, how: Spread, *, only: Path | None = None, gap: int = _GAP) -> Call:
    """Return `call` with its tensors, or the one at the path `only`, in other memory, so that only strides tell where.

    `rows`: rows that are longer by `gap`. `transposed`: the last two dimensions change places. `elements`: every second
    element of what has one dimension. `offset`: one element further on, off the alignment of the allocation. `expanded
    rows` and `expanded elements`: a stride of 0 in the first or the last dimension, of what is no output. What is
    broadcast (a stride of 0) already stays so.
    """

    def change(path: Path, value: object) -> object:
        return spread_tensor(value, how, gap) if isinstance(value, Tensor) and only in (None, path) else value

    return with_leaves(call, change)  # type: ignore[arg-type]


def spread_tensor(tensor: Tensor, how: Spread, gap: int = _GAP) -> Tensor:
    """Return one tensor in other memory, as `spread` has it."""
    shape, strides = tensor.shape, list(tensor.strides)
    if not shape:
        return tensor
    if how == "offset":
        return dataclasses.replace(tensor, offset=tensor.offset + 1)
    if how == "elements":
        return dataclasses.replace(tensor, strides=(strides[0] * 2,)) if len(shape) == 1 else tensor
    if 0 in strides:
        return tensor
    if how in ("expanded rows", "expanded elements"):
        return _expanded(tensor, 0 if how == "expanded rows" else -1)
    if len(shape) < 2:
        return tensor
    order = list(range(len(shape)))
    if how == "transposed":
        order[-2:] = reversed(order[-2:])
    step = 1
    for place, axis in enumerate(reversed(order)):
        strides[axis] = step
        step *= shape[axis]
        step += gap if place == 0 else 0
    return dataclasses.replace(tensor, strides=tuple(strides), offset=0)


def _expanded(tensor: Tensor, axis: int) -> Tensor:
    if is_unset(tensor) or tensor.requires_grad or (axis == -1 and len(tensor.shape) == 1):
        return tensor
    strides = list(tensor.strides)
    strides[axis] = 0
    return dataclasses.replace(tensor, strides=tuple(strides))
