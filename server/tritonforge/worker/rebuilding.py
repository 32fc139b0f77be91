"""Rebuild the arguments of a `Call` from their descriptions: seeded, with their strides, aliases and alignment."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import mmap
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from tritonforge.domain.launch import (
    Call,
    Distribution,
    Entries,
    ExactValues,
    Items,
    Opaque,
    Scalar,
    Symbol,
    Tensor,
    Value,
)
from tritonforge.worker.drawing import draw
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.fakecuda.large import RESIDENT_LIMIT, holds_nothing
from tritonforge.worker.fakecuda.mode import mark_cpu

_ALIGNED = 256
_LAZY = 1 << 20
GUARD = 0xA5
"""The byte beside every buffer of an argument."""

Filler = Callable[[Any], None]
"""Fills a tensor that no correct program reads before it writes."""


@dataclass
class Rebuilt:
    """Arguments ready to be passed, and every tensor among them under its path (`x`, `args[0]`, `weights.a[1]`)."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    tensors: dict[str, Any] = field(default_factory=dict)
    memories: list[tuple[Any, int, int]] = field(default_factory=list)
    """The bytes behind each buffer, where the buffer starts in them and where it ends; around it are guard zones."""

    def overrun(self) -> bool:
        """Tell whether something wrote into the guard zones beside a buffer."""
        return any(
            bool((memory[:start] != GUARD).any()) or bool((memory[end:] != GUARD).any())
            for memory, start, end in self.memories
        )


def rebuild(
    call: Call,
    *,
    device: str = "cpu",
    names: tuple[str, ...] = (),
    fill_unset: Filler | None = None,
    fill_gaps: Filler | None = None,
    main: ModuleType | None = None,
    large_as_meta: bool = False,
    fenced: bool = True,
) -> Rebuilt:
    """Build the call's arguments in memory of `device`.

    The same call gives the same values on the same kind of device: each tensor is drawn from `call.seed` and its path.
    `names` are the parameter names of the positional arguments, for paths; `fill_unset` fills what is described as
    uninitialised (zeros without it). `fill_gaps` fills what lies between a tensor's elements (a padded
    row, every second element). With `large_as_meta` a tensor that does not fit into memory holds nothing.
    Without `fenced`, memory on a GPU ends where its buffer ends, for a tool that sees what lies beyond it.
    `main` is the program's own module, which was `__main__` where the call was recorded.

    Raises:
        JobFailed: `unsupported`, when a value cannot be rebuilt.
    """
    builder = _Builder(call, device, fill_unset, fill_gaps, main, large_as_meta=large_as_meta)
    builder.fenced = fenced
    paths = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(call.arguments))]
    arguments = tuple(builder.value(v, p) for v, p in zip(call.arguments, paths, strict=True))
    keywords = {name: builder.value(v, name) for name, v in call.keywords}
    return Rebuilt(arguments, keywords, builder.tensors, builder.memories)


def walk(value: Value, path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor description inside `value` with its path."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Items):
        for i, item in enumerate(value.items):
            yield from walk(item, f"{path}[{i}]")
    elif isinstance(value, Entries):
        for name, item in value.items:
            yield from walk(item, f"{path}.{name}")


class _Builder:
    def __init__(
        self,
        call: Call,
        device: str,
        fill_unset: Filler | None,
        fill_gaps: Filler | None,
        main: ModuleType | None,
        *,
        large_as_meta: bool = False,
    ) -> None:
        self.large_as_meta = large_as_meta
        self.fenced = True
        self.call, self.device, self.fill_unset, self.fill_gaps = call, device, fill_unset, fill_gaps
        self.main = main
        self.tensors: dict[str, Any] = {}
        self.memories: list[tuple[Any, int, int]] = []
        self._sizes: dict[int, tuple[int, int]] = {}
        self._storages: dict[int, tuple[Any, int]] = {}
        values = [*call.arguments, *(v for _, v in call.keywords)]
        for described in (t for i, v in enumerate(values) for _, t in walk(v, str(i))):
            if described.buffer >= 0:
                size, unit = self._sizes.get(described.buffer, (0, 1))
                needed, item = _bytes_needed(described), int(dtype_of(described.dtype).itemsize)
                self._sizes[described.buffer] = max(size, needed), max(unit, item)

    def value(self, value: Value, path: str) -> Any:
        if isinstance(value, Tensor):
            tensor = self._tensor(value, path)
            self.tensors[path] = tensor
            if value.device == "cpu":
                mark_cpu(tensor)
            return tensor
        if isinstance(value, Scalar):
            return value.value
        if isinstance(value, Items):
            items = [self.value(v, f"{path}[{i}]") for i, v in enumerate(value.items)]
            return _collect(value.kind, items)
        if isinstance(value, Entries):
            return {name: self.value(v, f"{path}.{name}") for name, v in value.items}
        if isinstance(value, Symbol):
            return named(value, self.device, self.main)
        assert isinstance(value, Opaque)
        raise JobFailed("unsupported", f"The argument {path} ({value.repr}) cannot be rebuilt from its description.")

    def _tensor(self, t: Tensor, path: str) -> Any:
        dtype = dtype_of(t.dtype)
        memory, base = self._memory(t, dtype)
        view = memory.view(dtype).as_strided(t.shape, t.strides, base // dtype.itemsize + t.offset)
        self._fill(view, t, path)
        if t.requires_grad and (dtype.is_floating_point or dtype.is_complex):
            # A leaf of its own over the same memory, so that in-place writes of kernels stay visible.
            view = view.detach().requires_grad_()
        return view

    def _memory(self, t: Tensor, dtype: Any) -> tuple[Any, int]:
        """Return the byte tensor behind `t`, and the byte at which its buffer starts."""
        if t.buffer >= 0 and t.buffer in self._storages:
            return self._storages[t.buffer]
        size, unit = self._sizes.get(t.buffer, (_bytes_needed(t), dtype.itemsize))
        size = -(-size // unit) * unit
        on_cpu = t.device == "cpu" or self.device == "cpu"
        if on_cpu and size > RESIDENT_LIMIT:
            if not self.large_as_meta:
                raise JobFailed(
                    "unsupported", f"A tensor of {t.shape} {t.dtype} does not fit into memory here: use smaller sizes."
                )
            holding_nothing = torch.empty(size, dtype=torch.uint8, device="meta")
            if t.buffer >= 0:
                self._storages[t.buffer] = holding_nothing, 0
            return holding_nothing, 0
        offset = t.offset * dtype.itemsize
        natural = _ALIGNED if offset == 0 else min(_ALIGNED, offset & -offset)
        shift = 0 if t.alignment >= natural else -(-max(t.alignment, dtype.itemsize) // unit) * unit
        if on_cpu:
            raw = zeroed(size + 4 * _ALIGNED)
            whole = torch.frombuffer(raw, dtype=torch.uint8)
        else:
            spare = 4 * _ALIGNED if self.fenced else _ALIGNED + shift
            whole = torch.zeros(size + spare, dtype=torch.uint8, device=self.device)
        start = _ALIGNED + -whole.data_ptr() % _ALIGNED + shift
        whole[:start] = GUARD
        whole[start + size :] = GUARD
        self.memories.append((whole, start, start + size))
        if on_cpu and size:
            # A storage that ends where the buffer ends: whoever checks accesses sees its true extent.
            found = torch.frombuffer(raw, dtype=torch.uint8, count=size, offset=start), 0
        else:
            found = whole[start : start + size], start
        if self.fill_gaps is not None and t.elements * dtype.itemsize < size and not dtype.is_complex:
            self.fill_gaps(found[0][found[1] : found[1] + size].view(dtype))
        if t.buffer >= 0:
            self._storages[t.buffer] = found
        return found

    def _fill(self, view: Any, t: Tensor, path: str) -> None:
        if view.numel() == 0 or holds_nothing(view):
            return
        # Broadcast dimensions share memory: fill one slice of them.
        for axis, (extent, stride) in enumerate(zip(t.shape, t.strides, strict=True)):
            if stride == 0 and extent > 1:
                view = view.narrow(axis, 0, 1)
        shape = tuple(view.shape)
        if isinstance(t.values, ExactValues):
            self._fill_exactly(view, t)
            return
        policy = t.values
        if isinstance(policy, Distribution):
            if policy.kind == "uninitialised":
                if self.fill_unset is not None:
                    self.fill_unset(view)
                return
            special = policy.nan_fraction or policy.inf_fraction or policy.negative_inf_fraction
            if policy.kind == "zeros" and not special:
                view.zero_()
                return
        seed = hashlib.sha256(f"{self.call.seed}\0{path}\0{t.dtype}\0{shape}".encode()).digest()
        generator = torch._C.Generator(device=real_device(view))
        generator.manual_seed(int.from_bytes(seed[:7], "little"))
        view.copy_(draw(policy, shape, view.dtype, generator))

    def _fill_exactly(self, view: Any, t: Tensor) -> None:
        assert isinstance(t.values, ExactValues)
        raw = bytearray(zlib.decompress(t.values.data))
        dtype = view.dtype
        if len(raw) != t.elements * dtype.itemsize:
            raise JobFailed(
                "unsupported", f"The exact values given for a {t.dtype} tensor do not fit its shape {t.shape}."
            )
        values = torch.empty(t.elements, dtype=dtype)
        ctypes.memmove(values.data_ptr(), bytes(raw), len(raw))
        values = values.reshape(t.shape)
        for axis in range(view.dim()):
            if view.shape[axis] != t.shape[axis]:
                values = values.narrow(axis, 0, 1)
        view.copy_(values)


def zeroed(size: int) -> bytearray | mmap.mmap:
    """Return so many zero bytes; many of them take memory, and time, only where somebody writes."""
    return mmap.mmap(-1, size) if size >= _LAZY else bytearray(size)


def real_device(tensor: Any) -> Any:
    """Return where a tensor's memory is, whatever it says while CUDA is pretended."""
    return torch._C.TensorBase.device.__get__(tensor)


def _bytes_needed(t: Tensor) -> int:
    if t.elements == 0:
        return 0
    span = t.offset + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True))
    return int(span) * int(dtype_of(t.dtype).itemsize)


def dtype_of(name: str) -> Any:
    """Return the torch dtype that PyTorch names so (`float16`, `torch.float16`)."""
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise JobFailed("unsupported", f"This PyTorch ({torch.__version__}) has no dtype {name}.")
    return dtype


def _collect(kind: str, items: list[Any]) -> Any:
    if kind == "list":
        return items
    if kind == "Size":
        return torch.Size(items)
    if kind == "TensorDescriptor":
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(items[0], list(items[1]), list(items[2]), list(items[3]))
    return tuple(items)


def named(symbol: Symbol, device: str, main: ModuleType | None = None) -> Any:
    """Return the object that a symbol names."""
    if symbol.kind == "dtype":
        if symbol.name.startswith("tl."):
            import triton.language as tl

            return tl.dtype(symbol.name.removeprefix("tl."))
        return dtype_of(symbol.name)
    if symbol.kind == "device":
        wanted = torch.device(symbol.name)
        return wanted if device != "cpu" or wanted.type != "cuda" else torch.device(symbol.name)
    module, _, qualname = symbol.name.partition(":")
    try:
        found: Any = main if main is not None and module == "__main__" else importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise JobFailed(
            "unsupported", f"The {symbol.kind} {symbol.name} is not there in this program: {error}."
        ) from None
    return found
