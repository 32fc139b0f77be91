"""The names of element types in specs, and what numbers each can hold."""

from __future__ import annotations

import math
import struct
import sys
import zlib

from tritonforge.domain.launch import ExactValues, Symbol

SHORT = {
    "fp64": "float64", "f64": "float64", "fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16",
    "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64",
    "u32": "uint32", "u16": "uint16", "u8": "uint8", "i1": "bool", "fp8e4": "float8_e4m3fn", "fp8e5": "float8_e5m2",
    "c64": "complex64",
}  # fmt: skip
_TRITON = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int64": "int64", "int32": "int32",
    "int16": "int16", "int8": "int8", "uint64": "uint64", "uint32": "uint32", "uint16": "uint16", "uint8": "uint8",
    "bool": "int1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
FULL = (*_TRITON, "float8_e4m3fnuz", "float8_e5m2fnuz", "complex64")
KNOWN = (*SHORT, *FULL)

_PACKED = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?",
}  # fmt: skip
_LARGEST = {
    "float64": sys.float_info.max, "float32": (2 - 2**-23) * 2.0**127, "float16": 65504.0,
    "bfloat16": (2 - 2**-7) * 2.0**127, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0,
    "float8_e4m3fnuz": 240.0, "float8_e5m2fnuz": 57344.0, "complex64": (2 - 2**-23) * 2.0**127,
}  # fmt: skip
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def dtype_name(word: str) -> str | None:
    """Return PyTorch's name of the dtype that a spec calls `word` (`fp16`, `torch.float16`, `tl.float16`), or None."""
    plain = word.removeprefix("torch.").removeprefix("tl.").removeprefix("triton.language.")
    full = SHORT.get(plain, plain)
    if full in FULL:
        return full
    triton = {theirs: ours for ours, theirs in _TRITON.items()}
    return triton.get(plain)


def dtype_symbol(word: str, *, in_kernel: bool) -> Symbol | None:
    """Return the dtype that a bare name stands for: PyTorch's for a host function, Triton's for a kernel."""
    full = dtype_name(word)
    if full is None:
        return None
    if (in_kernel or word.startswith(("tl.", "triton."))) and not word.startswith("torch.") and full in _TRITON:
        return Symbol("dtype", f"tl.{_TRITON[full]}")
    return Symbol("dtype", full)


def is_floating(dtype: str) -> bool:
    """Tell whether a dtype holds fractions."""
    return dtype.startswith(("float", "bfloat", "complex"))


def item_bytes(dtype: str) -> int:
    """Return the size of one element in bytes."""
    if dtype == "bool" or dtype.startswith("float8"):
        return 1
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) // 8


def bounds(dtype: str) -> tuple[int, int] | None:
    """Return the least and the greatest number of an integer dtype, None for any other."""
    if dtype == "bool":
        return 0, 1
    bits = _BITS.get(dtype)
    if bits is None:
        return None
    return (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def largest(dtype: str) -> float:
    """Return the greatest finite number of a floating dtype, infinity for any other."""
    return _LARGEST.get(dtype, math.inf)


def pack(dtype: str, numbers: list[int | float]) -> ExactValues | None:
    """Return `numbers` as the elements of a tensor, None when the dtype cannot be written out.

    Raises:
        OverflowError, struct.error: when a number does not fit.
    """
    if dtype == "bfloat16":
        halves = []
        for number in numbers:
            (bits,) = struct.unpack("<I", struct.pack("<f", number))
            # Round to nearest, ties to even, as every conversion to bfloat16 does.
            halves.append((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF)
        return ExactValues(zlib.compress(struct.pack(f"<{len(halves)}H", *halves), 1))
    code = _PACKED.get(dtype)
    if code is None:
        return None
    plain = [bool(n) for n in numbers] if dtype == "bool" else numbers
    return ExactValues(zlib.compress(struct.pack(f"<{len(plain)}{code}", *plain), 1))
