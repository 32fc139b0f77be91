"""Describe values of a running program as domain nouns, without keeping their memory."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch

from tritonforge.domain.launch import (
    Distribution,
    Entries,
    Items,
    Opaque,
    Scalar,
    Symbol,
    Tensor,
    Value,
    ValuePolicy,
)
from tritonforge.worker.policies import EXACT_FLOATS, EXACT_INTEGERS, exact_values, measure, sample_of

__all__ = ["EXACT_FLOATS", "EXACT_INTEGERS", "Describing", "describe", "describe_tensor", "exact_values", "sample_of"]

_DEPTH = 6
_BASE_ALIGNMENT = 256


@dataclass
class Describing:
    """What is known beside the values themselves, and the numbers given to buffers within one call.

    `written`: addresses of storages that a kernel got, whose contents are therefore not what a real run would hold.
    `unset`: addresses of storages that `torch.empty` made. Without `values`, tensors are not read at all.
    """

    written: set[int] = field(default_factory=set)
    unset: set[int] = field(default_factory=set)
    buffers: dict[int, int] = field(default_factory=dict)
    exact: dict[tuple[Any, ...], ValuePolicy] = field(default_factory=dict)
    values: bool = True


def describe(value: Any, known: Describing, depth: int = 0) -> Value:
    """Describe any Python value; what cannot be rebuilt becomes `Opaque`."""
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
        return Scalar(_plain(value))
    if isinstance(value, torch.Tensor):
        return describe_tensor(value, known)
    if isinstance(value, (list, tuple)) and depth < _DEPTH:
        kind = "Size" if isinstance(value, torch.Size) else type(value).__name__
        if kind in {"Size", "list", "tuple"} and len(value) <= 4096:
            return Items(kind, tuple(describe(v, known, depth + 1) for v in value))
    if isinstance(value, dict) and depth < _DEPTH and type(value) is dict and all(isinstance(k, str) for k in value):
        return Entries(tuple((k, describe(v, known, depth + 1)) for k, v in value.items()))
    return _describe_named(value, known, depth)


def _plain(value: Any) -> Any:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _describe_named(value: Any, known: Describing, depth: int) -> Value:
    if isinstance(value, torch.dtype):
        return Symbol("dtype", str(value))
    if isinstance(value, torch.device):
        return Symbol("device", str(value))
    if isinstance(value, enum.Enum):
        return Symbol("enum", f"{type(value).__module__}:{type(value).__qualname__}.{value.name}")
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ == "dtype":
        return Symbol("dtype", f"tl.{value.name}")
    if kind.__name__ == "constexpr" and hasattr(value, "value"):
        return describe(value.value, known, depth)
    if hasattr(value, "item") and getattr(value, "shape", None) == () and kind.__module__.startswith("numpy"):
        return Scalar(_plain(value.item()))
    if kind.__name__ == "TensorDescriptor" and isinstance(getattr(value, "base", None), torch.Tensor):
        return Items(
            "TensorDescriptor",
            tuple(
                describe(getattr(value, name), known, depth + 1) for name in ("base", "shape", "strides", "block_shape")
            ),
        )
    target = value.fn if hasattr(value, "fn") and hasattr(value, "arg_names") else value
    if isinstance(target, (FunctionType, type)):
        name = f"{target.__module__}:{target.__qualname__}"
        if "<" not in name and _reachable(target.__module__, target.__qualname__, value):
            return Symbol("function", name)
    return Opaque(_short(value))


def _reachable(module: str, qualname: str, value: Any) -> bool:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is value


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "?"
    text = " ".join(text.split())
    return f"{type(value).__name__}: {text[:120]}"


def describe_tensor(tensor: Any, known: Describing) -> Value:
    """Describe a strided tensor: shape, strides, aliasing, alignment and a policy for its values."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        return Opaque(f"Tensor with layout {tensor.layout}")
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        return Opaque(f"Tensor subclass {type(tensor).__name__}")
    device, requires_grad = tensor.device.type, bool(tensor.requires_grad)
    tensor = tensor.detach()
    address = storage_address(tensor)
    buffer = known.buffers.setdefault(address, len(known.buffers))
    offset = int(tensor.storage_offset())
    return Tensor(
        shape=tuple(int(n) for n in tensor.shape),
        strides=tuple(int(s) for s in tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        alignment=alignment_of(offset * tensor.element_size()),
        buffer=buffer,
        offset=offset,
        values=policy_of(tensor, known, address),
        device=device,
        requires_grad=requires_grad,
    )


def storage_address(tensor: Any) -> int:
    """Return what tells the tensor's storage from every other that is alive (memory of meta tensors has no address)."""
    return int(tensor.untyped_storage()._cdata)


def alignment_of(byte_offset: int) -> int:
    """Return the alignment of an address that far behind a storage: allocators of GPUs align storages to 256 or more.

    What `byte_offset` says is used rather than the address, because while recording memory is the CPU's.
    """
    if byte_offset == 0:
        return _BASE_ALIGNMENT
    return min(_BASE_ALIGNMENT, byte_offset & -byte_offset)


def policy_of(tensor: Any, known: Describing, address: int) -> ValuePolicy:
    """Choose how the tensor's values are described: exactly where they steer the program, else their distribution."""
    if not known.values:
        return Distribution()
    key = (
        address,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor._version,
        address in known.written,
    )
    if key not in known.exact:
        if len(known.exact) > 512:
            known.exact.clear()
        known.exact[key] = measure(tensor, written=address in known.written, unset=address in known.unset)
    return known.exact[key]
