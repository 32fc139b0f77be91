"""The function that a frame runs, and its arguments in the form in which it can be called again."""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

from tritonforge.domain.launch import Value
from tritonforge.worker.values import Describing, describe

_FEW = 64
_BACKWARD = {
    # By `id`: the hash of a code object depends on which of its instructions are monitored (Python 3.12).
    id(vars(torch.autograd.function.BackwardCFunction)[name].__code__)
    for name in ("apply", "apply_boxed")
    if hasattr(vars(torch.autograd.function.BackwardCFunction).get(name), "__code__")
}


class Functions:
    """Finds the function that a frame runs, by an index of each module that is made when it is first asked for."""

    def __init__(self) -> None:
        # By `id`, as `_BACKWARD`; the function keeps its code.
        self._index: dict[int, tuple[CodeType, str, FunctionType]] = {}

    def of(self, frame: FrameType) -> tuple[str, FunctionType] | None:
        """Return the function of a frame and its path from its module, when attribute access reaches it there."""
        ident = id(frame.f_code)
        if ident not in self._index:
            name = frame.f_globals.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and vars(module) is frame.f_globals:
                self._index_module(module)
        found = self._index.get(ident)
        return None if found is None or found[0] is not frame.f_code else found[1:]

    def _index_module(self, module: ModuleType) -> None:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                for inner, member in list(vars(value).items()):
                    self._index_value(f"{name}.{inner}", getattr(member, "__func__", member), module)
            else:
                self._index_value(name, value, module)

    def _index_value(self, path: str, value: Any, module: ModuleType) -> None:
        # Through wrappers (`functools.wraps`): repeating goes through them as well.
        for _ in range(8):
            if isinstance(value, FunctionType) and value.__globals__ is vars(module):
                self._index.setdefault(id(value.__code__), (value.__code__, path, value))
            value = _own_attributes(value).get("__wrapped__")
            if value is None:
                return


def _own_attributes(value: Any) -> dict[str, Any]:
    """Return what stands in an object itself, without asking it: a lazy proxy would import what it stands for."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


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


def holds_graph(values: Any, depth: int = 3) -> bool:
    """Tell whether a value, or one in it, is a tensor that was computed by differentiable operations."""
    if isinstance(values, torch.Tensor):
        return values.grad_fn is not None
    if isinstance(values, dict):
        values = list(values.values())
    return isinstance(values, (list, tuple)) and depth > 0 and any(holds_graph(v, depth - 1) for v in values[:_FEW])


def is_backward(code: CodeType) -> bool:
    """Tell whether a frame of this code runs the backward of an `autograd.Function`."""
    return id(code) in _BACKWARD
