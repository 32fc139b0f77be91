"""Tensors between unmapped pages, and fresh memory that shows when it was never written."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import torch

Side = Literal["end", "start"]
"""Which end of a tensor lies right at an unmapped page."""

_PAGE = mmap.PAGESIZE
_FENCE = 64 << 20
_MOST_POISONED = 64 << 20
_POISON = 0x7E
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NORESERVE = 0x4000


def fenced(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, side: Side) -> torch.Tensor:
    """Return poisoned memory for a tensor; the process never gives it back.

    Raises:
        OSError: when the system has no such memory.
    """
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    size = max(extent, 0) * dtype.itemsize if math.prod(shape) else 0
    inner = -(-max(size, 1) // _PAGE) * _PAGE
    base = _libc.mmap(None, inner + 2 * _FENCE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value) or _libc.mprotect(base + _FENCE, inner, 3):
        raise OSError(ctypes.get_errno(), "no memory for a fenced tensor")
    start = base + _FENCE + (inner - size if side == "end" else 0)
    if size == 0:
        return torch.empty_strided(shape, strides, dtype=dtype)
    memory = (ctypes.c_char * size).from_address(start)
    flat = torch.frombuffer(memory, dtype=dtype)
    if size <= _MOST_POISONED:
        poison(flat, other=side == "start")
    return flat.as_strided(shape, strides)


def poison(tensor: torch.Tensor, *, other: bool = False) -> torch.Tensor:
    """Fill with NaN, or for whole numbers with a large one; bools are `not other`."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor.fill_(math.nan)
    if tensor.dtype == torch.bool:
        return tensor.fill_(not other)
    tensor.view(torch.uint8).fill_(_POISON)
    return tensor


def place(tensor: torch.Tensor, side: Side) -> torch.Tensor:
    """Return a fenced copy with the same strides."""
    return fenced(tuple(tensor.shape), tensor.stride(), tensor.dtype, side).copy_(tensor)


@contextmanager
def poisoned_allocations(side: Side) -> Iterator[None]:
    """Let `torch.empty` and its kin give fenced, poisoned memory on the CPU."""
    names = ((torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty"))
    with ExitStack() as stack:
        for where, name in names:
            stack.enter_context(mock.patch.object(where, name, _poisoning(getattr(where, name), side)))
        yield


def _poisoning(original: Callable[..., torch.Tensor], side: Side) -> Callable[..., torch.Tensor]:
    def allocate(*args: Any, **kwargs: Any) -> torch.Tensor:
        made = original(*args, **kwargs)
        if made.device.type != "cpu" or made.numel() == 0:
            return made
        return fenced(tuple(made.shape), made.stride(), made.dtype, side)

    return allocate
