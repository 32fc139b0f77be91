"""How a tensor's values are described: exactly where they steer addresses and control flow, else as a distribution."""

from __future__ import annotations

import ctypes
import math
import zlib
from typing import Any

import torch

from tritonforge.domain.launch import Distribution, ExactValues, ValuePolicy

EXACT_INTEGERS = 1 << 20
"""Integer and bool tensors up to this many elements keep their values."""

EXACT_FLOATS = 64
_EXACT_COMPRESSED = 1 << 24
_COMPRESSED_BYTES = 1 << 20
_SAMPLE = 1 << 20
_FULLY_SAMPLED_BYTES = 1 << 30
_RARE = 0.01
_LIKE_UNIFORM = 0.02


def measure(tensor: Any, *, written: bool, unset: bool) -> ValuePolicy:
    """Choose a policy for a strided tensor that holds values.

    `written`: a kernel got its memory, so that a real run would hold something else. `unset`: `torch.empty` made it.
    """
    n = tensor.numel()
    if n == 0:
        return Distribution("zeros")
    if tensor.is_meta:
        return Distribution() if tensor.dtype.is_floating_point else Distribution("zeros")
    if tensor.dtype.is_complex:
        return Distribution()
    if tensor.dtype.is_floating_point:
        return _floating(tensor, n, written=written, unset=unset)
    if unset and not written and not _any(tensor):
        return Distribution("uninitialised")
    return _integers(tensor, n)


def _integers(tensor: Any, n: int) -> ValuePolicy:
    if n <= EXACT_INTEGERS:
        return exact_values(tensor)
    if not _any(sample_of(tensor)) and not _any(tensor):
        return Distribution("zeros")
    exact = _compressed(tensor, n)
    if exact is not None:
        return exact
    flat = tensor.detach().reshape(-1)
    if tensor.dtype == torch.bool:
        return Distribution("bernoulli", mean=float(flat.double().mean()))
    low, high = int(flat.min()), int(flat.max())
    zeros = float((flat == 0).double().mean())
    if (low, high) == (0, 1):
        return Distribution("bernoulli", mean=1.0 - zeros, low=0.0, high=1.0)
    steps = flat[1:] - flat[:-1] if low >= 0 or tensor.dtype == torch.int64 else flat[1:].long() - flat[:-1].long()
    if bool((steps == 1).all()):
        return Distribution("arange", low=float(low), high=float(high))
    if bool((steps >= 0).all()):
        return Distribution("offsets", low=float(low), high=float(high), order="ascending")
    if high - low == n - 1 and _all_distinct(flat, low, n):
        return Distribution("permutation", low=float(low), high=float(high))
    order = "descending" if bool((steps <= 0).all()) else "random"
    kept = zeros if zeros > max(_RARE, 2.0 / (high - low + 1)) else 0.0
    return Distribution("uniform", low=float(low), high=float(high), zero_fraction=kept, order=order)


def _compressed(tensor: Any, n: int) -> ExactValues | None:
    """Return the values themselves when they pack into a mebibyte, as repeated or regular ones do."""
    if n > _EXACT_COMPRESSED:
        return None
    flat = tensor.detach().reshape(-1)
    piece = exact_values(flat[:EXACT_INTEGERS])
    if len(piece.data) * n > _COMPRESSED_BYTES * EXACT_INTEGERS:
        return None
    whole = exact_values(flat)
    return whole if len(whole.data) <= _COMPRESSED_BYTES else None


def _all_distinct(flat: Any, low: int, n: int) -> bool:
    seen = torch.zeros(n, dtype=torch.bool)
    seen[flat.long() - low] = True
    return bool(seen.all())


def _floating(tensor: Any, n: int, *, written: bool, unset: bool) -> ValuePolicy:
    sample = sample_of(tensor)
    finite = sample[torch.isfinite(sample)]
    if n <= EXACT_FLOATS and not written and not unset:
        return exact_values(tensor)
    special: dict[str, Any] = {}
    if finite.numel() < sample.numel():
        if n <= EXACT_INTEGERS and not written:
            return exact_values(tensor)
        special = {
            "nan_fraction": float(torch.isnan(sample).double().mean()),
            "inf_fraction": float((sample == math.inf).double().mean()),
            "negative_inf_fraction": float((sample == -math.inf).double().mean()),
        }
        if finite.numel() == 0:
            return Distribution("zeros", **special)
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        if low != 0.0:
            return Distribution("constant", low=low, high=low, **special)
        if special:
            return Distribution("zeros", low=0.0, high=0.0, **special)
        if written:
            return Distribution()  # a kernel would have written it; kernels do not run while recording
        return Distribution("uninitialised" if unset else "zeros")
    zeros = float((finite == 0).double().mean())
    if (low, high) == (0.0, 1.0) and bool(((finite == 0) | (finite == 1)).all()):
        return Distribution("bernoulli", mean=1.0 - zeros, low=0.0, high=1.0, **special)
    return _spread(finite, low, high, zeros, special)


def _spread(finite: Any, low: float, high: float, zeros: float, special: dict[str, Any]) -> Distribution:
    kept = zeros if zeros > _RARE else 0.0
    values = finite[finite != 0] if kept else finite
    mean, std = float(values.mean()), float(values.std()) if values.numel() > 1 else 0.0
    bottom, top = float(values.min()), float(values.max())
    return Distribution(
        "uniform" if _is_uniform(values, mean, std, bottom, top) else "normal",
        mean=mean,
        std=std,
        low=bottom if kept else low,
        high=top if kept else high,
        zero_fraction=kept,
        order=_order_of(finite),
        **special,
    )


def _is_uniform(values: Any, mean: float, std: float, low: float, high: float) -> bool:
    """Tell a uniform distribution: variance (high − low)²/12 and kurtosis 1.8."""
    if values.numel() < 256 or std == 0.0:
        return False
    width = high - low
    kurtosis = float((((values - mean) / std) ** 4).mean())
    return abs(std * math.sqrt(12.0) / width - 1) < 2 * _LIKE_UNIFORM and abs(kurtosis / 1.8 - 1) < 3 * _LIKE_UNIFORM


def _order_of(finite: Any) -> str:
    if finite.numel() < 8:
        return "random"
    steps = finite[1:] - finite[:-1]
    if bool((steps >= 0).all()):
        return "ascending"
    return "descending" if bool((steps <= 0).all()) else "random"


def sample_of(tensor: Any) -> Any:
    """Return at most a million of the tensor's elements as float64, spread over it, in their order."""
    n = tensor.numel()
    flat = tensor.reshape(-1) if n <= _SAMPLE else None
    if flat is None:
        dense = _dense(tensor)
        flat = dense if dense is not None else tensor.reshape(-1)
        count = _SAMPLE if n * tensor.element_size() <= _FULLY_SAMPLED_BYTES else _SAMPLE >> 4
        width = n // count
        # One of each stretch, at random: every so-many-th would see one phase of what is periodic.
        generator = torch._C.Generator(device="cpu")
        generator.manual_seed(n)
        flat = flat[torch.randint(width, (count,), generator=generator) + torch.arange(count) * width]
    return flat.to(torch.float64) if flat.dtype.itemsize > 1 else flat.float().double()


def _dense(tensor: Any) -> Any:
    """View a tensor that covers its memory without gaps as flat memory, or return None."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if span != tensor.numel():
        return None
    return tensor.as_strided((span,), (1,))


def _any(tensor: Any) -> bool:
    return bool(tensor.any()) if tensor.dtype.itemsize <= 8 else True


def exact_values(tensor: Any) -> ExactValues:
    """Pack the tensor's own values."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return ExactValues(zlib.compress(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()), 1))
