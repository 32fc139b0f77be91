"""What a function's signature says of arguments that a call leaves out: names and defaults, read off the source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from tritonforge.domain.launch import Call, Scalar
from tritonforge.domain.messages import Program

_LITERALS = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Parameter:
    """One parameter that can be given by name. `default` is None when it has none, or none that is a plain literal."""

    name: str
    positional: bool
    default: Scalar | None = None


def parameters_of(program: Program, call: Call) -> tuple[Parameter, ...]:
    """Return the parameters of the function that `call` calls, in order; none where its source cannot be read.

    Parameters that can only be given by position are left in, so that positions can be counted. A default may be a
    module constant that is assigned a literal.
    """
    text = text_of(program, call.file)
    try:
        module = ast.parse(text) if text is not None else None
    except (SyntaxError, ValueError, RecursionError):
        return ()
    node = _find(module.body, call.function.split(".")) if module else None
    if module is None or node is None or node.args.vararg or (node.args.args and node.args.args[0].arg in _BOUND):
        return ()
    constants = _constants(module.body)
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    found = [
        Parameter(parameter.arg, positional=True, default=_literal(default, constants))
        for parameter, default in zip(positional, [*defaults, *node.args.defaults], strict=True)
    ]
    found += [
        Parameter(parameter.arg, positional=False, default=_literal(default, constants))
        for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    return tuple(found)


_BOUND = frozenset({"self", "cls", "ctx"})


def text_of(program: Program, file: str) -> str | None:
    """Return the text of a file as the program loads it; None where it cannot be read."""
    for path, text in program.overlays:
        if path == file:
            return text
    try:
        return (Path(program.root) / file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _find(body: list[ast.stmt], names: list[str]) -> ast.FunctionDef | None:
    found = None
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == names[0] and len(names) == 1:
            found = node  # the last definition is the one that counts
        elif isinstance(node, ast.ClassDef) and node.name == names[0] and len(names) > 1:
            found = _find(node.body, names[1:]) or found
        elif isinstance(node, (ast.If, ast.Try)):
            found = _find([*node.body, *node.orelse], names) or found
    return found


def _constants(body: list[ast.stmt]) -> dict[str, ast.expr]:
    found = {}
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def _literal(node: ast.expr | None, constants: dict[str, ast.expr]) -> Scalar | None:
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return Scalar(value) if type(value) in _LITERALS else None
