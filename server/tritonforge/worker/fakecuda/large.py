"""Tensors that do not fit into memory: they say that they are on the GPU, have a shape and a dtype, and hold nothing.

They are tensors of PyTorch's `meta` device, so that every operation works out shapes and strides. What they hold cannot
be read; zero is given where a program asks for a single value, and an error where it asks for more.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

RESIDENT_LIMIT = 4 << 30
"""The most bytes that tensors which are really filled may take together, roughly."""

_WORTH_A_LOOK = 64 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class TooLarge(MemoryError):
    """What a tensor that does not fit into memory would hold was asked for."""


def resident_bytes() -> int:
    """Return the memory that this process holds (0 where the system does not say)."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


class _Working(threading.local):
    shapes = 0


_working = _Working()


@contextlib.contextmanager
def working_out_shapes() -> Iterator[None]:
    """Let tensors that hold nothing say that they are on `meta`: PyTorch works out shapes in Python and looks there."""
    _working.shapes += 1
    try:
        yield
    finally:
        _working.shapes -= 1


def are_shapes_worked_out() -> bool:
    """Tell whether this thread is inside `working_out_shapes`."""
    return _working.shapes > 0


class Room:
    """How much of the memory a recording may use is left. `base` is what the process held when it began."""

    def __init__(self) -> None:
        self.base = resident_bytes()
        self.used = False
        """Whether a tensor was made that holds nothing."""

    def has(self, n_bytes: int) -> bool:
        """Tell whether a tensor of that size can be filled; once one could not, `used` stays set."""
        if n_bytes < _WORTH_A_LOOK:
            return True
        fits = n_bytes <= RESIDENT_LIMIT and resident_bytes() - self.base + n_bytes <= RESIDENT_LIMIT
        self.used = self.used or not fits
        return fits


_SINGLE = {
    getattr(torch.Tensor, name): answer
    for name, answer in {
        "item": None, "__bool__": False, "__int__": 0, "__index__": 0, "__float__": 0.0, "__complex__": 0j,
    }.items()
}  # fmt: skip
_MANY = {
    getattr(owner, name)
    for owner in (torch, torch.Tensor)
    for name in ("tolist", "numpy", "nonzero", "masked_select", "unique", "argwhere", "__array__")
    if hasattr(owner, name)
}


def tensors_of(value: Any, depth: int = 3) -> Iterator[Any]:
    """Yield the tensors in a call's arguments."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and depth:
        for item in value:
            yield from tensors_of(item, depth - 1)
    elif isinstance(value, dict) and depth:
        for item in value.values():
            yield from tensors_of(item, depth - 1)


def holds_nothing(tensor: Any) -> bool:
    """Tell whether a tensor has no memory."""
    return bool(torch._C.TensorBase.is_meta.__get__(tensor))


def without_values(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Work out the result of a function that takes or makes a tensor which holds nothing.

    Raises:
        TooLarge: when the result depends on what the tensor would hold.
    """
    if func in _SINGLE:
        answer = _SINGLE[func]
        return torch.zeros((), dtype=args[0].dtype).item() if answer is None else answer
    if func in _MANY:
        raise TooLarge(
            f"The program reads all of a tensor of {tuple(args[0].shape)} {args[0].dtype}, which does not fit the "
            "memory that recording may use: record with smaller sizes."
        )
    name = getattr(func, "__name__", "")
    target = args[0] if args else None
    changes = isinstance(target, torch.Tensor) and (
        (name.endswith("_") and not name.endswith("__")) or name in {"__setitem__", "__iadd__", "__isub__", "__imul__"}
    )
    if changes and not holds_nothing(target):
        return target
    result = func(*_emptied(args), **_emptied(kwargs))
    return target if changes else result


def _emptied(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not holds_nothing(value) and value.dim() > 0:
        shape, strides = tuple(value.shape), tuple(value.stride())
        return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta", requires_grad=value.requires_grad)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(_emptied(item) for item in value)
    if isinstance(value, dict):
        return {key: _emptied(item) for key, item in value.items()}
    return value
