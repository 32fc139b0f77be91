"""The functions of a file that a launch spec can describe a call of."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import ModuleIndex, Part, Scope, parameters_of
from tritonforge.analysis.shifting import Shift
from tritonforge.analysis.text import SourceText
from tritonforge.domain.kernel import HostFunction, HostParameter

_AUTOGRAD = ("torch.autograd.Function", "torch.autograd.function.Function", "Function")


def find_hosts(index: ModuleIndex, text: SourceText, jits: Mapping[int, JitFunction]) -> tuple[HostFunction, ...]:
    """Return the functions of the module and of its classes, jit functions left out, in source order."""
    found: list[HostFunction] = []
    for scope in index.functions():
        node = scope.node
        if not isinstance(node, ast.FunctionDef) or id(node) in jits or scope.parent is None:
            continue
        around = scope.parent.node
        if isinstance(around, ast.Module):
            found.append(_top_level(index.parts.get(id(node)), node, scope, text))
            continue
        outer = scope.parent.parent
        if isinstance(around, ast.ClassDef) and outer is not None and isinstance(outer.node, ast.Module):
            found.append(_method(node, scope, around, outer, text))
    return tuple(found)


def _top_level(part: Part | None, node: ast.FunctionDef, scope: Scope, text: SourceText) -> HostFunction:
    """Describe a function of the module; what the same statement was found to be before is only moved."""
    if part is None or text.is_marked:
        return _describe(node, scope, text)
    if part.host is None:
        part.host = part.line, _describe(node, scope, text)
    line, host = part.host
    if line != part.line:
        where = Shift((line,), (part.line,)).range(host.range)
        host = dataclasses.replace(host, range=where)
        part.host = part.line, host
    return host


def _describe(
    node: ast.FunctionDef, scope: Scope, text: SourceText, *, skip: int = 0, positional: bool = False
) -> HostFunction:
    arguments = node.args
    parameters = tuple(
        HostParameter(
            parameter.arg,
            None if parameter.annotation is None else ast.unparse(parameter.annotation),
            None if default is None else ast.unparse(default),
        )
        for parameter, default in parameters_of(node)[skip:]
    )
    return HostFunction(
        name=scope.qualname,
        called_as=scope.qualname,
        parameters=parameters,
        range=text.definition_range(node),
        source=text.segment(node),
        positional=positional or bool(arguments.posonlyargs),
        open=arguments.kwarg is not None,
    )


def _method(node: ast.FunctionDef, scope: Scope, owner: ast.ClassDef, module: Scope, text: SourceText) -> HostFunction:
    kinds = {dotted(decorator, scope) for decorator in node.decorator_list}
    is_operator = any(dotted(base, module) in _AUTOGRAD for base in owner.bases)
    if is_operator and node.name == "forward":
        # `setup_context` operators take no `ctx` in `forward`.
        contextual = not any(isinstance(s, ast.FunctionDef) and s.name == "setup_context" for s in owner.body)
        described = _describe(node, scope, text, skip=int(contextual), positional=True)
        return dataclasses.replace(described, called_as=f"{owner.name}.apply")
    if "staticmethod" in kinds and not is_operator:
        return _describe(node, scope, text)
    described = _describe(node, scope, text, skip=0 if "staticmethod" in kinds else 1)
    return dataclasses.replace(described, called_as=None)
