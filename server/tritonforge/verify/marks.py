"""Integers that mark elements of integer tensors, as the label that a loss ignores does."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tritonforge.domain.launch import Call, ExactValues, Scalar, Tensor, Value
from tritonforge.verify.naming import by_name, given
from tritonforge.verify.resizing import Path, leaves, with_leaves
from tritonforge.verify.scalars import with_scalar
from tritonforge.verify.signature import Parameter

_MAX_MARKS = 2


def marked(call: Call, parameters: tuple[Parameter, ...]) -> Iterator[tuple[str, Call]]:
    """Let an integer that occurs among the elements of a tensor be another of them, and those elements with it.

    The elements follow because the original may read no others: a label that is ignored is no index.
    """
    named = by_name(call, parameters)
    defaults = {p.name: p.default for p in parameters if p.default is not None and named.get(p.name) is None}
    numbers: list[tuple[Path, object]] = [
        *((path, value.value) for path, value in leaves(call) if isinstance(value, Scalar)),
        *(((name,), default.value) for name, default in defaults.items()),
    ]
    known = [(path, values) for path, value in leaves(call) if (values := _exact(value)) is not None]
    found = 0
    for path, number in numbers:
        places = [(at, values) for at, values in known if type(number) is int and bool((values == number).any())]
        others = [int(v) for _, values in places[:1] for v in np.unique(values[values >= 0]) if v != number]
        for other in dict.fromkeys((others[0], others[-1])) if others and found < _MAX_MARKS else ():
            found += 1
            moved = _moved(call, [at for at, _ in places], number, other)
            if path in dict(leaves(call)):
                changed = with_scalar(moved, path, other)
            else:
                changed = given(moved, parameters, {**by_name(moved, parameters), str(path[0]): Scalar(other)})
            yield f"{path[0]} = {other}, which some elements are", changed


def _exact(value: Value) -> np.ndarray[Any, Any] | None:
    if isinstance(value, Tensor) and isinstance(value.values, ExactValues) and value.dtype in {"int32", "int64"}:
        return np.frombuffer(zlib.decompress(value.values.data), dtype=np.dtype(value.dtype))
    return None


def _moved(call: Call, paths: Sequence[Path], number: object, other: int) -> Call:
    """Return `call` with `other` for `number` among the elements of the tensors at `paths`."""

    def change(path: Path, value: Value) -> Value:
        values = _exact(value) if path in paths else None
        if values is None or not isinstance(value, Tensor):
            return value
        data = np.where(values == number, other, values).astype(values.dtype)
        return dataclasses.replace(value, values=ExactValues(zlib.compress(data.tobytes())))

    return with_leaves(call, change)
