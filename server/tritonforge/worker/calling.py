"""Repeat a `Call`: find its host function in a loaded program and run it, or launch its kernel directly."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.codec import encode
from tritonforge.domain.launch import Call, KernelLaunch, Scalar
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.launching import scalar_option
from tritonforge.worker.loading import Loaded, reload, run_as_main

MAIN = "__main__"
"""The function name of a call that runs the program's file as a script."""

MODULE = "__module__"
"""The function name of a call that imports the program's file."""


def identity(*parts: Any) -> str:
    """Return a short content hash of nouns and plain values."""
    return hashlib.sha256(json.dumps(encode(list(parts)), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Runnable:
    """Something that repeats a call when given its rebuilt arguments; `names` are its positional parameters."""

    run: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    names: tuple[str, ...]
    parameters: tuple[str, ...] = ()


def runnable(loaded: Loaded, call: Call) -> Runnable:
    """Find what a call names in an active program.

    Raises:
        JobFailed: `user-error`, when the program has no such function.
    """
    if call.kernel_launch is not None:
        return _kernel_runnable(loaded, call, call.kernel_launch)
    if call.function == MAIN:
        return Runnable(lambda _a, _k: run_as_main(loaded.program) and None, ())
    if call.function == MODULE:
        return Runnable(lambda _a, _k: reload(loaded.program) and None, ())
    function = _find(loaded, call)
    operator = getattr(function, "__func__", None) is torch.autograd.Function.apply.__func__  # what a spec calls
    if inspect.ismethod(function) and inspect.isclass(function.__self__) and not operator:
        function = function.__func__  # the class is among the recorded arguments of a class method
    return Runnable(lambda a, k: function(*a, **k), _positional_names(function))


def _find(loaded: Loaded, call: Call) -> Any:
    found: Any = loaded.module_of(call.file)
    for part in call.function.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise JobFailed("user-error", f"{call.file} has no {call.function}.", file=call.file)
    return found


def _positional_names(function: Any) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD})


def _kernel_runnable(loaded: Loaded, call: Call, launch: KernelLaunch) -> Runnable:
    kernel = _find(loaded, call)
    if not hasattr(kernel, "run") or not hasattr(kernel, "arg_names"):
        raise JobFailed("user-error", f"{call.file} has a {call.function}, but it is no Triton kernel.", file=call.file)
    options = {name: scalar_option(value) for name, value in launch.options}
    names = tuple(kernel.arg_names)
    # Autotuners and heuristics supply constexprs that the grid may read, so it is evaluated when they are known.
    given = {**dict(zip(names, call.arguments, strict=False)), **dict(call.keywords)}
    scalars = {n: v.value for n, v in given.items() if isinstance(v, Scalar)}

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        known = {**scalars, **meta}
        return tuple(evaluate(expression, known) for expression in launch.grid)

    def run(args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        kernel[grid](*args, **{**keywords, **options})

    return Runnable(run, names)


_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "next_power_of_2": lambda n: 1 << max(n - 1, 0).bit_length(),
}


def evaluate(expression: str, names: dict[str, Any]) -> int:
    """Evaluate a grid expression of `KernelLaunch.grid` over integer names.

    Raises:
        JobFailed: `unsupported`, when it uses anything that is not allowed there or not an integer.
    """
    try:
        return _evaluate(ast.parse(expression.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError, TypeError) as error:
        raise JobFailed("unsupported", f"The grid expression {expression!r} cannot be evaluated: {error}.") from None


def _evaluate(node: ast.expr, names: dict[str, Any]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"{node.id} is no parameter with a value")
        value = getattr(names[node.id], "value", names[node.id])
        handle = getattr(value, "handle", None)
        if handle is not None:  # the interpreter passes its own scalars
            value = int(handle.data.reshape(-1)[0])
        if not isinstance(value, int):
            raise TypeError(f"{node.id} is no integer")
        return int(value)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_evaluate(node.left, names), _evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, names)
    if isinstance(node, ast.Call) and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluate(a, names) for a in node.args))
    raise ValueError(f"{ast.unparse(node)} is not allowed there")


def seed_everything(seed: int) -> None:
    """Seed what host functions draw from, so that both programs of a comparison draw the same."""
    random.seed(seed)
    torch.manual_seed(seed)
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))
