"""What kernels stored before it was rounded to the memory's type: a float64 value for each address.

A value counts only while the memory still holds the bits that were written with it, so that whatever else writes there
(a host operation, an access as another type, a kernel that is not followed) is seen as it is.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from triton.runtime.interpreter import np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter.bfloat16 import narrow, widen

KIND_OF: dict[str, Any] = {"fp16": np.float16, "bf16": np.uint16, "fp32": np.float32}
"""Triton's names of the types that are carried in float64, with what numpy keeps them in (bfloat16 as its bits)."""
NAME_OF = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}


def rounded(values: Any, name: str) -> Any:
    """Round float64 values to a type, to nearest even, as an array of what numpy keeps the type in."""
    if name == "bf16":
        return narrow(values.astype(np.float32))
    return values.astype(KIND_OF[name])


def exact(values: Any, name: str) -> Any:
    """Return as float64 what an array of a type holds."""
    return (widen(values) if name == "bf16" else values).astype(np.float64)


def _bits(values: Any) -> Any:
    return values.view(f"u{values.dtype.itemsize}")


@dataclass
class _Memory:
    """The float64 values that go with one storage, by the name of the type that it was written as."""

    start: int
    end: int
    known: dict[str, tuple[Any, Any, Any]] = field(default_factory=dict)

    def arrays(self, name: str) -> tuple[Any, Any, Any]:
        """Return values, the bits they were rounded to, and which elements have any."""
        if name not in self.known:
            kind = np.dtype(KIND_OF[name])
            count = (self.end - self.start) // kind.itemsize
            bits = np.zeros(count, dtype=f"u{kind.itemsize}")
            self.known[name] = np.zeros(count), bits, np.zeros(count, dtype=np.bool_)
        return self.known[name]


class Shadow:
    """The float64 values of all memory that one run has touched.

    It holds no memory alive: whoever follows a run keeps the tensors that its kernels were given. `carries`: the types
    that it remembers values of.
    """

    carries = frozenset(NAME_OF)

    def __init__(self) -> None:
        self._memories: list[_Memory] = []
        self._starts: list[int] = []
        self.arithmetic: set[str] = set()
        """Triton's names of the floating types that the kernels add, multiply or accumulate in."""

    def cover(self, start: int, end: int) -> None:
        """Follow the bytes from `start` up to `end`; what overlaps is followed as one."""
        at = bisect.bisect_right(self._starts, start) - 1
        if end <= start or (at >= 0 and self._memories[at].end >= end):
            return
        joined = [m for m in self._memories if m.start < end and start < m.end]
        if joined:
            start, end = min(start, *(m.start for m in joined)), max(end, *(m.end for m in joined))
        memory = _Memory(start, end)
        for old in joined:
            for name, kept in old.known.items():
                size = np.dtype(KIND_OF[name]).itemsize
                first = (old.start - start) // size
                if (old.start - start) % size == 0:
                    for new, values in zip(memory.arrays(name), kept, strict=True):
                        new[first : first + len(values)] = values
        self._memories = sorted([*(m for m in self._memories if m not in joined), memory], key=lambda m: m.start)
        self._starts = [m.start for m in self._memories]

    def write(self, name: str, addresses: Any, values: Any, stored: Any) -> None:
        """Remember the float64 `values` of lanes that were written as `stored`; all three are flat."""

        def put(arrays: tuple[Any, Any, Any], at: Any, lanes: Any) -> None:
            arrays[0][at], arrays[1][at], arrays[2][at] = values[lanes], _bits(stored)[lanes], True

        self._each(name, addresses, put)

    def read(self, name: str, addresses: Any, held: Any) -> Any:
        """Return the float64 values of lanes, flat, whose memory holds `held`."""
        found = exact(held, name)

        def take(arrays: tuple[Any, Any, Any], at: Any, lanes: Any) -> None:
            same = arrays[2][at] & (arrays[1][at] == _bits(held)[lanes])
            found[lanes] = np.where(same, arrays[0][at], found[lanes])

        self._each(name, addresses, take)
        return found

    def _each(self, name: str, addresses: Any, visit: Callable[[tuple[Any, Any, Any], Any, Any], None]) -> None:
        """Call `visit` for each memory that addresses lie in, with element numbers and which lanes they are of."""
        if not addresses.size:
            return
        size = np.dtype(KIND_OF[name]).itemsize
        low, high = int(addresses.min()), int(addresses.max()) + size
        first = max(bisect.bisect_right(self._starts, low) - 1, 0)
        for memory in self._memories[first:]:
            if memory.start >= high:
                break
            offset = addresses.astype(np.int64) - memory.start
            inside: Any = slice(None)
            whole = memory.start <= low and high <= memory.end and not (offset % size).any()
            if not whole:
                inside = (offset >= 0) & (offset + size <= memory.end - memory.start) & (offset % size == 0)
            visit(memory.arrays(name), offset[inside] // size, inside)

    def seed(self, tensor: Any, values: Any) -> None:
        """Let an argument's memory stand for float64 `values` of the same shape."""
        addresses, held = _elements(tensor)
        storage = tensor.untyped_storage()
        self.cover(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        self.write(NAME_OF[tensor.dtype], addresses, values.reshape(-1).numpy(), held)

    def values_of(self, tensor: Any) -> Any:
        """Return a tensor's values in float64 (a new dense tensor), those that are remembered unrounded."""
        if tensor.dtype not in NAME_OF or tensor.numel() == 0:
            return tensor.detach().double().clone() if tensor.dtype.is_floating_point else tensor.detach().clone()
        addresses, held = _elements(tensor)
        return torch.from_numpy(self.read(NAME_OF[tensor.dtype], addresses, held)).reshape(tensor.shape)


def _elements(tensor: Any) -> tuple[Any, Any]:
    """Return the address of each element and what numpy keeps of it, both flat and in the order of the shape."""
    size = tensor.element_size()
    addresses = np.full((1,) * tensor.dim(), tensor.data_ptr(), dtype=np.uint64)
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = np.arange(extent, dtype=np.uint64) * np.uint64(stride * size)
        addresses = addresses + steps.reshape([-1 if a == axis else 1 for a in range(tensor.dim())])
    dense = tensor.detach().contiguous().reshape(-1)
    held = dense.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else dense.numpy()
    return addresses.reshape(-1), held
