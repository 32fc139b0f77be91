"""Checks every address a kernel uses against the buffers it was given, before it is used.

The interpreter works on raw host pointers: an access outside ends the process or, worse, quietly reads a neighbour.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

# The worker may not depend on numpy itself; the interpreter does, and brings it.
from triton.runtime.interpreter import np  # type: ignore[attr-defined,unused-ignore]


class OutOfBounds(Exception):
    """A kernel touches memory outside every buffer of its launch; the text says what and how far."""


@dataclass(frozen=True)
class Buffer:
    """Memory a launch may use: `[start, end)` in bytes, under the name of the parameter that brought it."""

    name: str
    start: int
    end: int
    itemsize: int
    elements: int


class Guard:
    """The buffers of one launch. `seen` is overridden by what follows accesses (`conflicts.Footprint`)."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.buffers = sorted(buffers, key=lambda b: b.start)
        merged: list[list[int]] = []
        for buffer in self.buffers:
            if merged and buffer.start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], buffer.end)
            elif buffer.end > buffer.start:
                merged.append([buffer.start, buffer.end])
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]
        self._start_array = np.array(self._starts, dtype=np.uint64)
        self._end_array = np.array(self._ends, dtype=np.uint64)

    def check(self, kind: str, addresses: Any, mask: Any, itemsize: int, values: Any = None) -> None:
        """Check the unmasked lanes of one access of `itemsize` bytes a lane; `values` are what a store is about to put.

        Raises:
            OutOfBounds: when a lane lies outside every buffer.
        """
        addresses = addresses.astype(np.uint64, copy=False)
        chosen = None
        if mask is not None:
            # `mask & scalar` comes as whole numbers, which would index instead of choose.
            mask = np.broadcast_to(mask, addresses.shape).astype(np.bool_, copy=False)
            if not mask.all():
                addresses, chosen = addresses[mask], mask
        if addresses.size == 0:
            return
        low, high = int(addresses.min()), int(addresses.max()) + itemsize
        at = bisect.bisect_right(self._starts, low) - 1
        if at < 0 or high > self._ends[at]:
            self._check_each(kind, addresses, itemsize)
        self.seen(kind, addresses, itemsize, values, chosen)

    def seen(self, kind: str, addresses: Any, itemsize: int, values: Any, mask: Any) -> None:
        """Take note of an access that is within bounds.

        `addresses` are those of the unmasked lanes; `values` are of all lanes, of which `mask` chooses (None: all).
        """
        del kind, addresses, itemsize, values, mask

    def enter(self, program: tuple[int, int, int]) -> None:
        """Take note that a program of the grid begins."""
        del program

    def synchronised(self, address: int) -> None:
        """Take note that the program released and acquired through the atomic at `address`."""
        del address

    def extents(self) -> list[tuple[int, int]]:
        """Return the memory of the launch as `(start, end)` in order, buffers that touch or overlap merged."""
        return list(zip(self._starts, self._ends, strict=True))

    def _check_each(self, kind: str, addresses: Any, itemsize: int) -> None:
        flat = addresses.reshape(-1)
        if not self._starts:
            raise OutOfBounds(f"{kind} {itemsize} bytes through a pointer, but the launch was given no buffer")
        at = np.searchsorted(self._start_array, flat, side="right").astype(np.int64) - 1
        ends = self._end_array[np.maximum(at, 0)]
        outside = (at < 0) | (flat + np.uint64(itemsize) > ends)
        if outside.any():
            count = int(outside.sum())
            raise OutOfBounds(self._describe(kind, int(flat[outside][0]), count, flat.size))

    def _describe(self, kind: str, address: int, count: int, lanes: int) -> str:
        def distance(buffer: Buffer) -> int:
            return buffer.start - address if address < buffer.start else address - buffer.end

        nearest = min(self.buffers, key=distance)
        lanes_text = f" ({count} of {lanes} lanes)" if lanes > 1 else ""
        if distance(nearest) > 1 << 40:
            return f"{kind} an address that belongs to no buffer of the launch{lanes_text}"
        element = (address - nearest.start) // nearest.itemsize
        return f"{kind} element {element} of {nearest.name}, whose memory has {nearest.elements}{lanes_text}"


def buffers_of(arguments: dict[str, Any]) -> list[Buffer]:
    """Return the memory that a launch's arguments give it, as whole storages: kernels may reach beyond a view."""
    found: list[Buffer] = []
    tables: set[int] = set()
    for name, value in arguments.items():
        for tensor in _tensors(value):
            found.append(buffer_of(name, tensor))
            if tensor.dtype == torch.int64 and 0 < tensor.numel() <= 4096:
                tables.update(int(v) for v in tensor.reshape(-1).tolist() if v > 1 << 20)
    if tables:
        # Tables of pointers: their targets belong to the launch as well.
        for candidate in gc.get_objects():
            known = type(candidate) is torch.Tensor and candidate.device.type != "meta"
            if known and candidate.data_ptr() in tables:
                found.append(buffer_of("a pointer table's target", candidate))
    return found


def buffer_of(name: str, tensor: Any) -> Buffer:
    """Return the storage behind a tensor as a buffer."""
    storage = tensor.untyped_storage()
    start, size = int(storage.data_ptr()), int(storage.nbytes())
    item = int(tensor.element_size())
    # Elements are counted from where the tensor starts, as the kernel's own pointer does.
    # PyTorch gives an empty tensor no address, wherever its storage lies.
    first = int(tensor.data_ptr()) or start + int(tensor.storage_offset()) * item
    return Buffer(name, min(start, first), start + size, item, (start + size - first) // item)


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in _tensors(item)]
    base = getattr(value, "base", None)  # tensor descriptors, reinterpreted tensors
    return [base] if isinstance(base, torch.Tensor) else []
