"""The arguments of a running function: taken when it starts, described when it launches."""

from __future__ import annotations

import enum
import inspect
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from tritonforge.domain.launch import Value
from tritonforge.worker.values import Describing, describe

_DEPTH = 4
_FEW = 64
_BACKWARD = {
    vars(torch.autograd.function.BackwardCFunction)[name].__code__
    for name in ("apply", "apply_boxed")
    if hasattr(vars(torch.autograd.function.BackwardCFunction).get(name), "__code__")
}


def values_of(frame: FrameType) -> dict[str, Any]:
    """Return the arguments of a function that has just started, by name."""
    code, values = frame.f_code, frame.f_locals
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return {name: values[name] for name in code.co_varnames[:n] if name in values}


def describable(value: Any, depth: int = 0) -> bool:
    """Tell at little cost whether a value might be described; what is refused here is not even printed."""
    if value is None or isinstance(
        value, (bool, int, float, str, torch.Tensor, torch.dtype, torch.device, enum.Enum, FunctionType, type)
    ):
        return True
    if isinstance(value, (list, tuple)):
        return depth < _DEPTH and all(describable(v, depth + 1) for v in value[:_FEW])
    if type(value) is dict:
        return depth < _DEPTH and len(value) <= _FEW and all(describable(v, depth + 1) for v in value.values())
    kind = type(value)
    return (
        kind.__module__.partition(".")[0] in {"triton", "numpy"}
        or kind.__name__ == "TensorDescriptor"
        or (kind.__module__.startswith("torch") and kind.__name__ in {"Generator", "Size"})
    )


def holds_graph(values: Any, depth: int = 3) -> bool:
    """Tell whether a value, or one in it, is a tensor that was computed by differentiable operations."""
    if isinstance(values, torch.Tensor):
        return values.grad_fn is not None
    if isinstance(values, dict):
        values = list(values.values())
    return isinstance(values, (list, tuple)) and depth > 0 and any(holds_graph(v, depth - 1) for v in values[:_FEW])


def is_backward(code: CodeType) -> bool:
    """Tell whether a frame of this code runs the backward of an `autograd.Function`."""
    return code in _BACKWARD


def described_arguments(
    code: CodeType, values: dict[str, Any], function: FunctionType, known: Describing
) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
    """Describe arguments (by name, as `values_of` returns them) in the form in which they can be passed again.

    What equals its default is left out, so that a version of the function with another default (a block size, say)
    shows its effect when the call is repeated.
    """
    names = code.co_varnames
    at = code.co_argcount + code.co_kwonlyargcount
    extra = values[names[at]] if code.co_flags & inspect.CO_VARARGS else ()
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    positional: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    for index, name in enumerate(names[: code.co_argcount]):
        if index >= first and values[name] is defaults[index - first] and not extra:
            continue
        if len(positional) == index:
            positional.append(describe(values[name], known))
        else:
            keywords.append((name, describe(values[name], known)))
    given = function.__kwdefaults__ or {}
    keywords += [
        (name, describe(values[name], known))
        for name in names[code.co_argcount : at]
        if name not in given or values[name] is not given[name]
    ]
    positional += [describe(v, known) for v in extra]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest = values[names[at + bool(code.co_flags & inspect.CO_VARARGS)]]
        keywords += [(n, describe(v, known)) for n, v in rest.items()]
    return tuple(positional), tuple(keywords)
