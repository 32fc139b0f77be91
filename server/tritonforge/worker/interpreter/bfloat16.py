"""bfloat16 in the interpreter, which keeps it as raw 16-bit integers and computes on those.

A sum or a dot of two bfloat16 blocks is integer arithmetic on bit patterns there, and a cast truncates. Here operands
are widened to float32, and results are rounded to nearest even, as GPUs do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

_BINARY = (
    "fadd", "fmul", "fdiv", "frem", "fsub", "precise_divf", "minimumf", "minnumf", "maximumf", "maxnumf", "fcmpOLT",
    "fcmpOGT", "fcmpOLE", "fcmpOGE", "fcmpOEQ", "fcmpONE", "fcmpULT", "fcmpUGT", "fcmpULE", "fcmpUGE", "fcmpUEQ",
    "fcmpUNE",
)  # fmt: skip
_UNARY = ("cos", "exp", "exp2", "floor", "ceil", "log", "log2", "precise_sqrt", "sqrt", "sin", "erf", "rsqrt")


def widen(data: Any) -> Any:
    """Return the float32 values of bfloat16 bit patterns."""
    return (np.ascontiguousarray(data).astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(np.shape(data))


def narrow(data: Any) -> Any:
    """Round float32 values to bfloat16 bit patterns, to nearest even; NaNs keep their payload's upper bits."""
    values = np.ascontiguousarray(data, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16).reshape(np.shape(data))


def is_bf16(handle: Any) -> bool:
    """Tell whether a handle holds the bit patterns of bfloat16 (in float64 it needs no help)."""
    held = isinstance(handle, TensorHandle) and handle.data.dtype == np.uint16
    return held and handle.dtype.scalar == tl.bfloat16


def _wide(handle: Any) -> Any:
    return TensorHandle(widen(handle.data), tl.float32) if is_bf16(handle) else handle


def _back(handle: Any) -> Any:
    if isinstance(handle, TensorHandle) and handle.data.dtype == np.float32:
        return TensorHandle(narrow(handle.data), tl.bfloat16)
    return handle


def _computing_wide(original: Callable[..., Any]) -> Callable[..., Any]:
    def wide(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(is_bf16(a) for a in args):
            return original(self, *args, **kwargs)
        return _back(original(self, *[_wide(a) for a in args], **kwargs))

    return wide


def _update(op: str, addresses: Any, values: Any, mask: Any) -> Any:
    """Update memory lane by lane, as atomics of bfloat16 do, and return what was there."""
    before = np.zeros(addresses.shape, dtype=np.uint16)
    values = np.broadcast_to(values, addresses.shape)
    for at in np.argwhere(np.broadcast_to(mask, addresses.shape)):
        lane = tuple(at)
        place = ctypes.c_uint16.from_address(int(addresses[lane]))
        before[lane] = place.value
        new = values[lane]
        if not op.endswith("XCHG"):
            old, given = (widen(np.array([bits], dtype=np.uint16)) for bits in (place.value, new))
            combine = np.fmax if op.endswith("MAX") else np.fmin if op.endswith("MIN") else np.add
            new = narrow(combine(old, given))[0]
        place.value = int(new)
    return before


def install() -> None:
    """Patch the interpreter's builder, once, for the whole process."""
    builder = interpreter.InterpreterBuilder
    for name in (*_BINARY, *_UNARY, "clampf", "fma"):
        attribute = f"create_{name}"
        if hasattr(builder, attribute):
            setattr(builder, attribute, _computing_wide(getattr(builder, attribute)))
    atomic_rmw = builder.create_atomic_rmw

    def create_atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        if not is_bf16(val):
            return atomic_rmw(self, op, ptr, val, mask, *rest)
        return TensorHandle(_update(str(op), ptr.data, val.data, mask.data), tl.bfloat16)

    builder.create_atomic_rmw = create_atomic_rmw
    dot, cast, fp_to_fp = builder.create_dot, builder.cast_impl, builder.create_fp_to_fp

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any, **kwargs: Any) -> Any:
        if is_bf16(d):
            return _back(dot(self, _wide(a), _wide(b), _wide(d), *rest, **kwargs))
        return dot(self, _wide(a), _wide(b), d, *rest, **kwargs)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        to = dst_type.scalar
        if to == tl.bfloat16:
            wide = _wide(src)
            return TensorHandle(narrow(wide.data.astype(np.float32)), to)
        return cast(self, _wide(src), dst_type)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
        to, source = dst_type.scalar, src.dtype.scalar
        plain = {tl.float16, tl.bfloat16, tl.float32, tl.float64}
        if source in plain and to in plain:
            return cast_impl(self, src, dst_type)
        return fp_to_fp(self, _wide(src), dst_type, rounding)

    builder.create_dot = create_dot
    builder.cast_impl = cast_impl
    builder.create_fp_to_fp = create_fp_to_fp
    builder.get_bf16 = lambda _self, value: TensorHandle(narrow(np.array([value], dtype=np.float32)), tl.bfloat16)
