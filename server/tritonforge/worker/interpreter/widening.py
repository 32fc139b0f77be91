"""Interpret kernels with every floating value in float64: what they would compute if nothing were rounded.

Handles keep the types that the kernel says, so that all of the language's type logic is unchanged; only their arrays
are wider. Bit casts, 8-bit floats and inline assembly see values as the kernel's own types round them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.interpreter import running
from tritonforge.worker.interpreter.shadow import KIND_OF, Shadow, exact, rounded

_ARITHMETIC = (np.add, np.subtract, np.multiply, np.divide)
_FLOATS = {*KIND_OF, "fp64"}


@contextlib.contextmanager
def widening(shadow: Shadow) -> Iterator[Shadow]:
    """Interpret in float64 while the block runs, keeping in `shadow` what is stored."""
    patches = Patches()
    wide = _Wide(shadow)
    try:
        wide.install(patches)
        yield shadow
    finally:
        patches.restore()


def _name(handle: Any) -> str:
    return str(handle.dtype.scalar.name)


def _is_wide(handle: Any) -> bool:
    return isinstance(handle, TensorHandle) and handle.data.dtype == np.float64 and _name(handle) in KIND_OF


def _narrowed(handle: Any) -> Any:
    return TensorHandle(rounded(handle.data, _name(handle)), handle.dtype) if _is_wide(handle) else handle


def _widened(handle: Any) -> Any:
    """Carry in float64 what an operation returned in the type's own precision."""
    known = isinstance(handle, TensorHandle) and _name(handle) in KIND_OF
    if known and handle.data.dtype == KIND_OF[_name(handle)]:
        return TensorHandle(exact(handle.data, _name(handle)), handle.dtype)
    return handle


def _constant(kind: Any) -> Callable[..., Any]:
    return lambda _self, value: TensorHandle(np.array([value], dtype=np.float64), kind)


class _Wide:
    """The operations of the interpreter's builder that know how wide a value is."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.types = interpreter._get_np_dtype
        self._covered: Any = None

    def install(self, patches: Patches) -> None:
        """Patch the interpreter until the patches are restored."""
        builder = interpreter.InterpreterBuilder
        validate = getattr(interpreter, "_validate_np_data_size", None)
        if validate is not None:
            patches.set(interpreter, "_validate_np_data_size", _size_is_valid(validate))
        patches.set(interpreter, "_get_np_dtype", self.type_of)
        patches.set(interpreter, "_implicit_cvt", _converting(interpreter._implicit_cvt))
        for name, kind in (("fp16", tl.float16), ("bf16", tl.bfloat16), ("fp32", tl.float32)):
            patches.set(builder, f"get_{name}", _constant(kind))
        patches.set(builder, "create_fabs", lambda _self, a: TensorHandle(np.abs(a.data), a.dtype.scalar))
        for name in ("create_bitcast", "create_atomic_cas", "create_inline_asm"):
            patches.set(builder, name, self.in_own_precision(getattr(builder, name)))
        patches.set(builder, "cast_impl", self.cast(builder.cast_impl))
        patches.set(builder, "create_fp_to_fp", self.cast(builder.create_fp_to_fp))
        patches.set(builder, "create_masked_load", self.load(builder.create_masked_load))
        patches.set(builder, "create_masked_store", self.store(builder.create_masked_store))
        patches.set(builder, "create_atomic_rmw", self.update(builder.create_atomic_rmw))
        patches.set(builder, "create_dot", self.noting(builder.create_dot, 2))
        patches.set(builder, "create_fma", self.noting(builder.create_fma, 2))
        patches.set(builder, "binary_op", self.binary(builder.binary_op))
        for owner, name in (("ReduceOps", "sum"), ("ScanOps", "cumsum"), ("ScanOps", "cumprod")):
            folding = getattr(interpreter, owner, None)
            if hasattr(folding, name):
                patches.set(folding, name, self.folding(getattr(folding, name)))

    def type_of(self, kind: Any) -> Any:
        """Stand in for `_get_np_dtype`."""
        own = self.types(kind)
        scalar = getattr(kind, "scalar", kind)
        return np.dtype(np.float64) if getattr(scalar, "name", "") in KIND_OF else own

    def own(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an operation of the interpreter with the types as they are in memory."""
        interpreter._get_np_dtype = self.types
        try:
            return function(*args, **kwargs)
        finally:
            interpreter._get_np_dtype = self.type_of

    def in_own_precision(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(builder: Any, *args: Any, **kwargs: Any) -> Any:
            given = [[_narrowed(x) for x in a] if isinstance(a, list) else _narrowed(a) for a in args]
            result = self.own(original, builder, *given, **kwargs)
            handles = getattr(result, "handles", None)
            if handles is not None:
                handles[:] = [_widened(h) for h in handles]
            return _widened(result)

        return operation

    def cast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def cast(builder: Any, src: Any, dst_type: Any, *rest: Any) -> Any:
            to = dst_type.scalar
            if to.name in _FLOATS and not src.dtype.scalar.is_fp8():
                return TensorHandle(src.data.astype(np.float64, copy=False), to)
            if not to.is_floating() and src.data.dtype.kind == "f":
                return TensorHandle(src.data.astype(self.types(dst_type)), to)
            return _widened(self.own(original, builder, _narrowed(src), dst_type, *rest))

        return cast

    def load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(builder: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
            name = ptrs.get_element_ty().name
            if name not in KIND_OF:
                return self.own(original, builder, ptrs, mask, other, *rest, **kwargs)
            result = self.own(original, builder, ptrs, mask, _narrowed(other), *rest, **kwargs)
            lanes = self.lanes(ptrs, mask)
            values = exact(result.data, name) if other is None else _filled(result.data, other.data, lanes, name)
            values[lanes] = self.shadow.read(name, ptrs.data[lanes], result.data[lanes])
            return TensorHandle(values, result.dtype)

        return load

    def store(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(builder: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **kwargs: Any) -> Any:
            result = self.own(original, builder, ptrs, _narrowed(value), mask, *rest, **kwargs)
            name = ptrs.get_element_ty().name
            if name in KIND_OF and _is_wide(value):
                lanes = self.lanes(ptrs, mask)
                values = np.broadcast_to(value.data, ptrs.data.shape)[lanes]
                self.shadow.write(name, ptrs.data[lanes], values, rounded(values, name))
            return result

        return store

    def update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(builder: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
            if not _is_wide(val):
                return self.own(original, builder, op, ptr, val, mask, *rest)
            name, lanes = _name(val), self.lanes(ptr, mask)
            addresses, added = ptr.data[lanes], np.broadcast_to(val.data, ptr.data.shape)[lanes]
            held = self.own(original, builder, op, ptr, _narrowed(val), mask, *rest).data
            before = exact(held, name)
            combine = _combination(str(op))
            # Lanes of one address follow each other: each round takes the first that is left of each address.
            left = np.arange(addresses.size)
            seen, now = np.zeros(addresses.size), held[lanes].copy()
            self.note(name)
            while left.size:
                _, first = np.unique(addresses[left], return_index=True)
                turn = left[first]
                seen[turn] = self.shadow.read(name, addresses[turn], now[turn])
                new = combine(seen[turn], added[turn])
                stored = rounded(new, name)
                _poke(addresses[turn], stored)
                self.shadow.write(name, addresses[turn], new, stored)
                left = np.setdiff1d(left, turn)
                if left.size:
                    where = {int(a): bits for a, bits in zip(addresses[turn], stored, strict=True)}
                    now[left] = [where[int(a)] for a in addresses[left]]
            before[lanes] = seen
            return TensorHandle(before, val.dtype.scalar)

        return update

    def lanes(self, ptrs: Any, mask: Any) -> Any:
        """Return which lanes an access takes, and follow the memory that its launch was given."""
        if running._guard is not None and running._guard is not self._covered:
            self._covered = running._guard
            for buffer in self._covered.buffers:
                self.shadow.cover(buffer.start, buffer.end)
        return np.broadcast_to(np.asarray(mask.data), ptrs.data.shape).astype(np.bool_)

    def note(self, name: str) -> None:
        """Remember that floating values of a type are computed with."""
        if name in _FLOATS:
            self.shadow.arithmetic.add(name)

    def noting(self, original: Callable[..., Any], at: int) -> Callable[..., Any]:
        def operation(builder: Any, *args: Any, **kwargs: Any) -> Any:
            self.note(_name(args[at]))
            return original(builder, *args, **kwargs)

        return operation

    def binary(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def binary_op(builder: Any, lhs: Any, rhs: Any, op: Any) -> Any:
            if op in _ARITHMETIC and lhs.data.dtype.kind == "f":
                self.note(_name(lhs))
            return original(builder, lhs, rhs, op)

        return binary_op

    def folding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fold(operation: Any, values: Any) -> Any:
            self.note(values.dtype.scalar.name)
            return original(operation, values)

        return fold


def _filled(held: Any, other: Any, lanes: Any, name: str) -> Any:
    return np.where(lanes, exact(held, name), np.broadcast_to(other, held.shape))


def _combination(op: str) -> Callable[[Any, Any], Any]:
    if op.endswith("XCHG"):
        return lambda _old, new: new
    combine: Callable[[Any, Any], Any] = np.add
    if op.endswith(("MAX", "MIN")):
        combine = np.fmax if op.endswith("MAX") else np.fmin
    return combine


def _poke(addresses: Any, stored: Any) -> None:
    stored = np.ascontiguousarray(stored)
    interpreter._interpreter.store(addresses, stored, np.ones(addresses.shape, dtype=np.bool_))


def _size_is_valid(original: Callable[..., bool]) -> Callable[..., bool]:
    def valid(array: Any, kind: Any) -> bool:
        return (array.dtype == np.float64 and getattr(kind.scalar, "name", "") in KIND_OF) or original(array, kind)

    return valid


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    def convert(argument: Any) -> Any:
        result = original(argument)
        if isinstance(result, tl.tensor) and result.handle.data.dtype == np.float32:
            result.handle.data = result.handle.data.astype(np.float64)
        return result

    return convert
