"""Fill the gaps of Triton's interpreter, once, in the process that lanes are forked from."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter import bfloat16, combining, libdevice, ptx, rewriting
from tritonforge.worker.interpreter.running import (
    atomic,
    masked_load,
    masked_store,
    run_interpreted,
    scalar_conversion,
    told_load,
)

_installed = False


def install() -> None:
    """Patch the interpreter. Needs `TRITON_INTERPRET=1` to have been set before Triton was imported."""
    global _installed
    if _installed:
        return
    _installed = True
    _patch_language_for_good()
    _remember_dtypes()
    _ignore_nan_as_gpus_do()
    bfloat16.install()
    libdevice.install()
    rewriting.install()
    combining.install()
    builder = interpreter.InterpreterBuilder
    builder.create_inline_asm = ptx.create_inline_asm
    builder.create_masked_load = masked_load(builder.create_masked_load)
    semantic: Any = getattr(tl.semantic, "TritonSemantic", tl.semantic)
    semantic.load = told_load(semantic.load)
    builder.create_masked_store = masked_store(builder.create_masked_store)
    builder.create_atomic_rmw = atomic(builder.create_atomic_rmw, 3)
    builder.create_atomic_cas = atomic(builder.create_atomic_cas, None)
    _allow_every_precision()
    _leave_out_overflow_checks()
    _remember_block_types()
    interpreter._implicit_cvt = scalar_conversion(interpreter._implicit_cvt)
    interpreter.InterpretedFunction.run = run_interpreted


def _allow_every_precision() -> None:
    """Take every precision of `tl.dot` that a GPU's compiler takes: the interpreter computes them all alike."""
    options = getattr(interpreter.interpreter_builder, "options", None)
    if hasattr(options, "allowed_dot_input_precisions"):
        allowed = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6", "hf32")
        object.__setattr__(options, "allowed_dot_input_precisions", allowed)


def _leave_out_overflow_checks() -> None:
    """Spare the test of every integer sum and product for overflow, which is half the time of a small program.

    It only leads to an assertion of debug mode, which is off here as it is on a GPU: integers wrap on both.
    """
    options = getattr(interpreter.interpreter_builder, "options", None)
    if hasattr(options, "sanitize_overflow") and not getattr(options, "debug", False):
        object.__setattr__(options, "sanitize_overflow", False)


_performed = [0]


def operations() -> int:
    """Return how many operations on blocks this process interpreted so far: what a run costs, on any machine."""
    return _performed[0]


def _remember_block_types() -> None:
    """Keep what each type of block is made of: the interpreter makes one for every operation, by checks and text."""
    original = tl.block_type.__init__
    known: dict[tuple[Any, ...], dict[str, Any]] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        _performed[0] += 1
        plain = all(type(extent) is int for extent in shape)
        key = (type(element_ty), str(element_ty), *shape) if plain else ()
        found = known.get(key) if plain else None
        if found is None:
            original(self, element_ty, shape)
            if plain and not element_ty.is_ptr():
                known[key] = dict(vars(self))
        else:
            vars(self).update(found)

    tl.block_type.__init__ = init


def _ignore_nan_as_gpus_do() -> None:
    """Let `maximum`, `minimum` and `clamp` return the other operand for a NaN, unless they are told to propagate it.

    The interpreter propagates NaN always, and so takes `maximum(x, 0)` for `where(x < 0, 0, x)`.
    """
    builder = interpreter.InterpreterBuilder
    builder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)
    builder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)
    propagating = builder.create_clampf

    def create_clampf(self: Any, x: Any, low: Any, high: Any, propagate_nans: Any) -> Any:
        if getattr(propagate_nans, "name", "") == "ALL":
            return propagating(self, x, low, high, propagate_nans)
        clamped = np.fmin(np.fmax(x.data, low.data), high.data)
        return TensorHandle(clamped.astype(x.data.dtype, copy=False), x.dtype.scalar)

    builder.create_clampf = create_clampf


class _Kept:
    """A patch scope whose patches stay."""

    def restore(self) -> None:
        """Keep everything: this process only ever interprets."""


def _patch_language_for_good() -> None:
    """Patch `triton.language` for interpretation now.

    Triton does it for each launch and each call of a helper, which costs milliseconds each time, and only for kernels
    whose globals hold the module itself.
    """

    def template() -> None:
        return None

    visible = FunctionType(template.__code__, {"tl": tl, "core": tl.core, "triton": triton})
    interpreter._patch_lang(visible)
    # Up to Triton 3.6 this was `int(array of one element)`, which numpy 2.4 refuses.
    tl.tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
    kept: Any = _Kept()
    interpreter._patch_lang = lambda _fn: kept


def _remember_dtypes() -> None:
    """Keep numpy's dtype for each of Triton's: the interpreter builds a table of them for every operation."""
    original = interpreter._get_np_dtype
    known: dict[str, Any] = {}
    pointer = original(tl.pointer_type(tl.int8))

    def of(kind: Any) -> Any:
        if isinstance(kind, tl.block_type):
            kind = kind.element_ty
        if isinstance(kind, tl.pointer_type):
            return pointer
        found = known.get(kind.name)
        if found is None:
            found = known[kind.name] = original(kind)
        return found

    interpreter._get_np_dtype = of
