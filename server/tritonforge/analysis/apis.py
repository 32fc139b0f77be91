"""Which of Triton's functions a kernel uses: in its body, in helpers of the file that it calls, in its decorators."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tritonforge.analysis.discovery import JitFunction
from tritonforge.analysis.names import dotted
from tritonforge.analysis.scopes import Scope
from tritonforge.analysis.unit import Unit
from tritonforge.domain.kernel import ApiUse

_DEPTH = 4


def read_apis(kernel: JitFunction, unit: Unit) -> tuple[ApiUse, ...]:
    """Return each function of Triton that is used, and each keyword it is given, once, at its first place."""
    found: dict[tuple[str, str], ApiUse] = {}
    paths: dict[tuple[int, str], str | None] = {}

    def path_of(node: ast.expr, scope: Scope) -> str | None:
        written = _written(node)
        if written is None:
            return None
        key = id(scope), written
        if key not in paths:
            path = None if _has_alternatives(written, scope) else dotted(node, scope)
            paths[key] = path if path is not None and path.startswith("triton.") else None
        return paths[key]

    def note(path: str, node: ast.AST, keyword: str = "") -> None:
        found.setdefault((path, keyword), ApiUse(path, unit.text.range(node), keyword))

    for tree, scope in _parts(kernel, unit):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                path = path_of(node.func, scope)
                if path is not None:
                    note(path, node)
                    for keyword in node.keywords:
                        if keyword.arg is not None:
                            note(path, keyword, keyword.arg)
            elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
                path = path_of(node, scope)
                if path is not None:
                    note(path, node)
    return tuple(sorted(found.values(), key=lambda use: (use.range, use.path, use.keyword)))


def _has_alternatives(written: str, scope: Scope) -> bool:
    """Tell whether a name is bound in several ways, of which the installed version chooses one: a `try`, an `if`."""
    found = scope.lookup(written.partition(".")[0])
    return found is not None and sum(binding.kind in {"import", "function"} for binding in found[1]) > 1


def _written(node: ast.expr) -> str | None:
    """Return a dotted expression as it is written, or None for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _parts(kernel: JitFunction, unit: Unit) -> Iterator[tuple[ast.AST, Scope]]:
    """Yield the kernel's decorators and body, and the bodies of the helpers that it reaches by name."""
    yield from kernel.decorators()
    waiting, seen = [(kernel, 0)], {id(kernel.node)}
    while waiting:
        jit, depth = waiting.pop(0)
        for statement in jit.node.body:
            yield statement, jit.scope
        if depth == _DEPTH:
            continue
        for name in sorted(jit.scope.names - jit.scope.bindings.keys()):
            bound = jit.scope.lookup(name)
            for binding in bound[1] if bound is not None else []:
                helper = unit.jits.get(id(binding.node))
                if helper is not None and id(helper.node) not in seen:
                    seen.add(id(helper.node))
                    waiting.append((helper, depth + 1))
