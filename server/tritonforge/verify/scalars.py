"""Other numbers and flags for the arguments of a call that are no sizes."""

from __future__ import annotations

import math
from collections.abc import Callable

from tritonforge.domain.launch import Call, Scalar, Tensor, Value
from tritonforge.verify.resizing import Path, all_tensors, leaves, with_leaves

_LARGE = 1000.0

FACTORS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("factors of zero", lambda _: 0.0),
    ("factors of one", lambda _: 1.0),
    ("negative factors", lambda old: -(abs(old) or 1.0)),
    ("large factors", lambda old: (abs(old) or 1.0) * _LARGE),
)
"""What else becomes of float arguments, in words and as a function of the recorded number."""


def other_scalars(call: Call, change: Callable[[float], float] | None = None) -> Call | None:
    """Return `call` with each finite float argument changed, None when nothing changes by it.

    Without `change` each is changed by a quarter, so that a factor, a probability or an epsilon stays what it was in
    sign and order of magnitude.
    """

    def changed(_path: Path, value: Value) -> Value:
        if (number := _factor(value)) is not None:
            return Scalar(change(number) if change else a_quarter_less(number))
        return value

    found = with_leaves(call, changed)
    return None if found == call else found


def floats(call: Call) -> tuple[Path, ...]:
    """Return where `call` has finite float arguments."""
    return tuple(path for path, value in leaves(call) if _factor(value) is not None)


def _factor(value: Value) -> float | None:
    """Return the number of a finite float argument, None of any other."""
    number = value.value if isinstance(value, Scalar) else None
    return number if type(number) is float and math.isfinite(number) else None


def a_quarter_less(number: float) -> float:
    """Return another number of the same sign and order of magnitude."""
    return number * 0.75 or 0.25


def flipped_flags(call: Call) -> tuple[tuple[str, Call], ...]:
    """Return `call` with each bool argument turned round, one at a time, with what was turned."""
    flags = [(path, value.value) for path, value in leaves(call) if isinstance(value, Scalar)]
    return tuple(
        (f"{path[0]}={not flag}", with_scalar(call, path, not flag)) for path, flag in flags if isinstance(flag, bool)
    )


def free_integers(call: Call) -> tuple[tuple[Path, int], ...]:
    """Return the integer arguments with where they are.

    Integers that repeat an extent, an element count or a stride of a tensor follow the tensors and are left out.
    """
    tensors = all_tensors(call)
    tied = {n for tensor in tensors for n in (*tensor.shape, *tensor.strides, tensor.elements)} - {0, 1}
    return tuple(
        (path, value.value)
        for path, value in leaves(call)
        if isinstance(value, Scalar) and type(value.value) is int and value.value not in tied
    )


def neighbours(call: Call) -> tuple[tuple[str, Call], ...]:
    """Return `call` with each free integer one more, one less and over twice it, one at a time, and what it became."""
    return tuple(
        (f"argument {path[0]} = {other}", with_scalar(call, path, other))
        for path, number in free_integers(call)
        for other in (number + 1, number - 1, *((2 * number + 1,) if number > 1 else ()))
    )


def with_scalar(call: Call, at: Path, value: float | bool | str | None) -> Call:
    """Return `call` with the argument at `at` being `value`."""

    def change(path: Path, old: Value) -> Value:
        return Scalar(value) if path == at and isinstance(old, (Scalar, Tensor)) else old

    return with_leaves(call, change)
