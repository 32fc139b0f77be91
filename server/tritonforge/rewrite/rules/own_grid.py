"""A grid of its own for a launch that shares one with another kernel: written at the launch, with the new tiles."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tritonforge.rewrite.rules.grid import Grid, values_at
from tritonforge.rewrite.rules.launch_values import LaunchNode, Refused
from tritonforge.rewrite.rules.sharing import Sharing
from tritonforge.rewrite.scopes import Scopes, Variable
from tritonforge.rewrite.text import Source

_DEPTH = 6
_LOOSE = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda)
"""Expressions that need brackets where they stand in place of a name."""

_SHARED = "the grid is shared with another kernel's launch"


def own_grid(source: Source, sharing: Sharing, launch: LaunchNode, grid: Grid, replaced: Mapping[ast.expr, str]) -> str:
    """Return the text of `grid` with `replaced` nodes, names that lead to them being written out.

    Raises:
        Refused: something but grids and other kernels' launches depends on such a name, what it reads may be set anew
            before the launch, a function computes it, or it is given a name where it stands.
    """
    assert launch.grid is not None
    named = next((n for n in ast.walk(launch.grid) if isinstance(n, ast.NamedExpr)), None)
    if named is not None:
        raise Refused(f"{_SHARED}, which reads {named.target.id} of line {named.lineno}")
    writer = _Writer(source, sharing.scopes, replaced)
    text = writer.text(launch.grid, _DEPTH)
    left = next((node for node in replaced if node not in writer.done), None)
    if left is not None:
        raise Refused(f"{_SHARED}, and line {left.lineno} computes it for both")
    roots = [*grid.roots, *(root for other in sharing.other_grids for root in other.roots)]
    for variable in writer.written_out:
        for read in variable.reads:
            if not any(sharing.scopes.inside(read, root) for root in roots) and not sharing.in_other_launch(read):
                raise Refused(f"{_SHARED}, and line {read.lineno} depends on {variable.name}")
    for variable in writer.read:
        if len(variable.values) + (variable.parameter is not None) > 1:
            raise Refused(f"{_SHARED}, and {variable.name}, which it reads, is set in several places")
    return text


class _Writer:
    def __init__(self, source: Source, scopes: Scopes, replaced: Mapping[ast.expr, str]) -> None:
        self.source = source
        self.scopes = scopes
        self.replaced = replaced
        self.written_out: list[Variable] = []
        self.read: list[Variable] = []
        self.done: set[ast.AST] = set()

    def text(self, node: ast.expr, depth: int) -> str:
        """Return the source of `node` with everything that is replaced in it and behind its names."""
        start, end = self.source.span(node)
        text, changes = self.source.text[start:end], self._changes(node, depth, outermost=True)
        for (first, last), new in sorted(changes, reverse=True):
            text = text[: first - start] + new + text[last - start :]
        return text

    def _changes(self, node: ast.AST, depth: int, *, outermost: bool = False) -> list[tuple[tuple[int, int], str]]:
        if isinstance(node, ast.expr) and node in self.replaced:
            self.done.add(node)
            return [(self.source.span(node), self.replaced[node])]
        variable = self.scopes.resolve(node) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Name) and variable is not None:
            values = values_at(self.scopes, node, variable)
            value = values[0] if len(values) == 1 else None
            if isinstance(value, ast.expr) and depth and self._leads(value, depth):
                self.written_out.append(variable)
                new = self.text(value, depth - 1)
                loose = isinstance(value, _LOOSE) or (isinstance(value, ast.Tuple) and not new.startswith("("))
                bracketed = loose and not outermost
                return [(self.source.span(node), f"({new})" if bracketed else new)]
            self.read.append(variable)
            return []
        return [change for child in ast.iter_child_nodes(node) for change in self._changes(child, depth)]

    def _leads(self, node: ast.expr, depth: int) -> bool:
        """Tell whether something is replaced in `node` or behind its names."""
        for inner in ast.walk(node):
            if inner in self.replaced:
                return True
            variable = self.scopes.resolve(inner) if isinstance(inner, ast.Name) else None
            if not isinstance(inner, ast.Name) or variable is None or not depth:
                continue
            values = values_at(self.scopes, inner, variable)
            if len(values) == 1 and isinstance(values[0], ast.expr) and self._leads(values[0], depth - 1):
                return True
        return False
