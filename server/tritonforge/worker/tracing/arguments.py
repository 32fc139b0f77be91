"""The arguments of a running function: taken when it starts, described when it launches."""

from __future__ import annotations

import enum
import inspect
from types import FrameType, FunctionType
from typing import Any

import torch

_DEPTH = 4
_FEW = 64


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
