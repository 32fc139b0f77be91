"""Arguments that equal their defaults or were left out: what else they may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tritonforge.domain.launch import Call, Distribution, Family, Hostile, Scalar, Tensor, Value
from tritonforge.verify.naming import by_name, given
from tritonforge.verify.resizing import all_tensors, is_floating, is_unset, map_tensors
from tritonforge.verify.scalars import a_quarter_less
from tritonforge.verify.signature import Parameter
from tritonforge.verify.spreading import spread_tensor

_MAX_OPTIONAL = 3
_MATRIX = 2
_MAGNITUDES: tuple[Family, ...] = ("zeros", "small", "normal", "powers-of-two", "mixed-magnitudes")


def other_defaults(call: Call, parameters: tuple[Parameter, ...]) -> Iterator[tuple[str, Call]]:
    """Leave out what equals its default, give what was left out, and give another value than the default."""
    named = by_name(call, parameters)
    tries = 0
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if default is None:
            continue
        value = named.get(name)
        if value == default:
            yield f"{name} left to its default", given(call, parameters, {**named, name: None})
        if value in (None, default):
            if isinstance(default.value, bool) and value is not None:
                continue  # flags are flipped in any case
            others = _others(default, call)
            tries += default.value is None
            if default.value is None and tries > _MAX_OPTIONAL:
                continue
            for other in others:
                changed = given(call, parameters, {**named, name: other})
                # Numbers of every size: whether a limit is another one shows on both sides of it only.
                yield f"{name} other than its default", map_tensors(changed, of_every_size)
                if isinstance(default.value, float):
                    yield f"{name} other than its default, rows of every magnitude", map_tensors(changed, _in_rows)
        elif isinstance(value, Tensor) and default.value is None:
            yield f"{name}=None", given(call, parameters, {**named, name: default})


def _others(default: Scalar, call: Call) -> tuple[Value, ...]:
    """Return other values to give where a default is: one of a number or a flag; tensors that may fit for None."""
    value = default.value
    if isinstance(value, bool):
        return (Scalar(not value),)
    if isinstance(value, int):
        return (Scalar(value + 1), Scalar(2 * value + 1)) if value > 1 else (Scalar(value + 1),)
    if isinstance(value, float):
        # A quarter less of an epsilon shows nowhere, and three times a probability may be no probability.
        return Scalar(a_quarter_less(value)), Scalar(3 * value + 0.25)
    tensors = sorted((t for t in all_tensors(call) if is_floating(t) and t.shape), key=lambda t: -t.elements)
    if value is not None or not tensors:
        return ()
    like = dataclasses.replace(tensors[0], values=Distribution(), buffer=-1, requires_grad=False)
    row = dataclasses.replace(like, shape=like.shape[-1:], strides=(1,), offset=0)
    if len(like.shape) < _MATRIX:
        return (row,)
    turned = dataclasses.replace(like, shape=(*like.shape[:-2], like.shape[-1], like.shape[-2]))
    # An output that may be given need not be dense.
    return row, like, *(spread_tensor(one, "transposed") for one in (like, turned)), spread_tensor(turned, "rows")


def of_every_size(tensor: Tensor) -> Tensor:
    """Give floating data numbers of all magnitudes, unless it is small by its type or not written at all."""
    if not is_floating(tensor) or is_unset(tensor) or not tensor.elements or tensor.dtype.startswith("float8"):
        return tensor
    return dataclasses.replace(tensor, values=Distribution("normal", mean=0.0, std=30.0))


def _in_rows(tensor: Tensor) -> Tensor:
    """Give each row of floating data a magnitude of its own: a floor or an epsilon counts where all is small."""
    if not is_floating(tensor) or is_unset(tensor) or not tensor.elements or tensor.dtype.startswith("float8"):
        return tensor
    return dataclasses.replace(tensor, values=Hostile(_MAGNITUDES, "rows"))
