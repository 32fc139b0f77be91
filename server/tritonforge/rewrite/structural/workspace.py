"""Host code of a kernel that is launched twice: a workspace for partial results, and a loop over the two stages."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Sequence

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.grid import meta_key
from tritonforge.rewrite.rules.keyword_arguments import insert_items, insert_keywords
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.flow import Shape
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText

_MOST_AXES = 3


def grid_tuple(host: Host) -> ast.Tuple | ast.List:
    """Return the tuple that a launch's grid is, wherever it is written.

    Raises:
        Refused: it is no tuple that is written once.
    """
    found = [root for root in host.grids[0].roots if isinstance(root, ast.Tuple | ast.List)]
    for root in host.grids[0].roots:
        if isinstance(root, ast.Lambda) and isinstance(root.body, ast.Tuple | ast.List):
            found.append(root.body)
        if isinstance(root, ast.FunctionDef):
            values = [n.value for n in ast.walk(root) if isinstance(n, ast.Return)]
            found += [v for v in values if isinstance(v, ast.Tuple | ast.List)]
    if len(found) != 1 or any(isinstance(e, ast.Starred) for e in found[0].elts):
        raise Refused("the grid of the launch is no tuple that can be given one more axis")
    return found[0]


def new_axis(text: KernelText, host: Host) -> int:
    """Return the number of an axis that the grid does not have yet.

    Raises:
        Refused: it has all three.
    """
    axes = len(grid_tuple(host).elts)
    if axes >= _MOST_AXES:
        raise Refused("the grid has three axes already")
    if any(n > 1 for n in text.launch.config.grid[axes:]):
        raise Refused("the recorded grid has other axes than the one in the text")
    for axis in range(axes):
        host.extent(0, axis)
    return axes


def stages(text: KernelText, host: Host, extent: str) -> list[Edit]:
    """Return the edits that give the grid one more axis of `extent` programs.

    Raises:
        Refused: the grid is a value that is made before the launch and used elsewhere, too.
    """
    grid = grid_tuple(host)
    if len(grid.elts) == 1:
        return [text.source.replace(grid, f"({text.source.segment(grid.elts[0])}, {extent})")]
    return list(insert_items(text.source, grid, grid.elts, [extent]))


def device_of(text: KernelText, host: Host, before: ast.stmt) -> str:
    """Return the device that a launch runs on, as the host function can say it in front of a statement.

    Raises:
        Refused: it passes no tensor that is known there.
    """
    call = host.nodes[0].call
    known = text.kernel.parameters
    listed = [(known[i].name, a) for i, a in enumerate(call.args) if i < len(known)]
    for name, argument in (*listed, *((k.arg, k.value) for k in call.keywords)):
        parameter = text.kernel.parameter(name) if name else None
        if parameter is None or parameter.role != "pointer" or not isinstance(argument, ast.Name | ast.Attribute):
            continue
        root = next(n for n in ast.walk(argument) if isinstance(n, ast.Name))
        variable = text.scopes.resolve(root)
        late = variable is not None and any(
            isinstance(n, ast.Name) and n.id == root.id and isinstance(n.ctx, ast.Store) and n.lineno >= before.lineno
            for n in ast.walk(variable.scope)
        )
        if variable is not None and not late:
            return f"{text.source.segment(argument)}.device"
    raise Refused("no tensor of the launch tells which device it runs on")


class Workspace:
    """The workspace of one launch: `pointers` are the kernel's new parameters, `shapes` what a program stores to each.

    Raises:
        Refused: its size is not known in front of the launch, or the launch is no statement of its own.
    """

    def __init__(
        self, text: KernelText, host: Host, axis: int, pointers: Sequence[str], shapes: Sequence[Shape]
    ) -> None:
        self.text, self.host, self.axis = text, host, axis
        self.pointers, self.shapes = pointers, shapes
        self.source = text.source
        self.node = host.nodes[0]
        if text.kernel.autotune is not None or text.kernel.heuristics:
            raise Refused("tiles are chosen by a decorator, so that nobody knows how large the partial results are")
        if self.node.host is None:
            raise Refused("the launch stands in no function")
        host.require_torch()
        statement = next(a for a in host.scopes.ancestors(self.node.call) if isinstance(a, ast.stmt))
        if not isinstance(statement, ast.Expr) or statement.value is not self.node.call:
            raise Refused("the launch is no statement of its own")
        self.statement = statement
        self.taken = {n.id for n in ast.walk(self.node.host) if isinstance(n, ast.Name)} | {
            a.arg for a in ast.walk(self.node.host) if isinstance(a, ast.arg)
        }
        self.hoisted: dict[str, str] = {}
        self.hoisting: list[Edit] = []
        self.tuple = grid_tuple(host)
        self.tiles = [self._in_front(e) for e in self.tuple.elts]
        self.extents = [[self._extent(e) for e in shape] for shape in shapes]
        self.device = device_of(text, host, statement)

    def sizes(self, shape: Shape) -> list[int]:
        """Return the extents of a shape in the recorded launch."""
        known = [self.text.size(e) for e in shape]
        if any(n is None for n in known):
            raise Refused("how large a partial result is cannot be told")
        return [n for n in known if n is not None]

    def _extent(self, name: str) -> str:
        """Return what a launch passes for an extent of a block, as it is known in front of the launch."""
        if name.isdecimal():
            return name
        parameter = self.text.kernel.parameter(name)
        if parameter is None or not parameter.constexpr:
            raise Refused(f"{name} is not passed by the launch")
        given = self.host.argument(0, name)
        if given is None:
            raise Refused(f"what the launch passes for {name} cannot be seen")
        return self._passed(name, given)

    def _passed(self, name: str, given: ast.expr) -> str:
        """Return a name for what is passed: a number or a call there becomes a variable, so that both stay the same."""
        if isinstance(given, ast.Name):
            return given.id
        if not isinstance(given, ast.Constant):
            if not self.host.says_at_launch(0, given):
                raise Refused(f"what is passed for {name} is not known in front of the launch")
            if not isinstance(given, ast.Call) or name in self.taken:
                return self.source.segment(given)
        if name not in self.hoisted:
            if name in self.taken:
                raise Refused(f"{name} is another variable of the host function")
            self.hoisted[name] = self.source.segment(given)
            self.hoisting.append(self.source.replace(given, name))
        return name

    def _in_front(self, extent: ast.expr) -> str:
        """Return an extent of the grid as it is written in front of the launch."""
        start = self.source.span(extent)[0]
        words, grid, scopes = self.source.segment(extent), self.host.grids[0], self.host.scopes
        keys: set[ast.AST] = set()
        for node in sorted(ast.walk(extent), key=lambda n: -getattr(n, "col_offset", 0)):
            key = meta_key(grid, node) if isinstance(node, ast.expr) else None
            if key is None:
                continue
            given = self.host.argument(0, key)
            if given is None:
                raise Refused(f"the grid is computed from {key}, which the launch does not show")
            assert isinstance(node, ast.expr)
            low, high = self.source.span(node)
            words = words[: low - start] + self._passed(key, given) + words[high - start :]
            keys |= set(ast.walk(node))
        for name in ast.walk(extent):
            if not isinstance(name, ast.Name) or name in keys:
                continue
            variable = scopes.resolve(name)
            if variable is None or isinstance(variable.scope, ast.Module):
                continue
            inner = variable.scope is not self.node.host
            late = [
                n
                for n in ast.walk(variable.scope)
                if isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Store)
            ]
            if inner or any(n.lineno >= self.tuple.lineno for n in late):
                raise Refused(f"{name.id}, which the number of programs depends on, is not the same at the launch")
        return words

    def edits(self, split: str, count: int, flag: str, dtypes: Sequence[str]) -> list[Edit]:
        """Return the edits of the host function for `count` parts."""
        source, statement = self.source, self.statement
        line = source.line_text(statement.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        fresh = HostNames(self.taken)
        names = [fresh(p.removesuffix("_ptr")) for p in self.pointers]
        parts, stage = fresh(split), fresh("in_parts")
        lines = [f"{name} = {value}" for name, value in self.hoisted.items()]
        # One expression says how many tiles there are, for the grid and for the workspace alike.
        axes = []
        for axis, tiles in enumerate(self.tiles):
            if re.fullmatch(r"\w+", tiles):
                axes.append(tiles)
                continue
            axes.append(fresh("tiles" if len(self.tiles) == 1 else f"tiles_{'xy'[axis]}"))
            lines.append(f"{axes[-1]} = {tiles}")
        lines.append(f"{parts} = {count}")
        programs = " * ".join([*axes, parts])
        for name, extents, dtype in zip(names, self.extents, dtypes, strict=True):
            shape = f"({', '.join([programs, *extents])})" if extents else programs
            lines.append(f"{name} = torch.empty({shape}, device={self.device}, dtype=torch.{dtype})")
        lines.append(f"for {stage} in (True, False):  # every part, then what the parts come to")
        start = source.span(statement)[0]
        lead = source.newline + indent
        edits: list[Edit] = [source.insert(start, lead.join(lines) + f"{lead}    ")]
        edits += [
            source.insert(source.line_starts[number - 1], "    ")
            for number in range(statement.lineno + 1, (statement.end_lineno or statement.lineno) + 1)
        ]
        pairs = [*zip(self.pointers, names, strict=True), (split, parts), (flag, stage)]
        # Lines of the launch move to the right, and so do those that are added to it.
        edits += [
            dataclasses.replace(edit, text=edit.text.replace(source.newline, f"{source.newline}    "))
            for edit in insert_keywords(source, self.node.call, pairs)
        ]
        edits += self.hoisting
        assert self.node.grid is not None
        grid = f"({', '.join([*axes, f'{parts} if {stage} else 1'])})"
        edits.append(source.replace(self.node.grid, grid))
        return [*edits, *self._grid_unused()]

    def _grid_unused(self) -> list[Edit]:
        """Return the edit that takes away the variable or function of the old grid, where only the launch read it."""
        grid, source = self.node.grid, self.source
        variable = self.host.scopes.resolve(grid) if isinstance(grid, ast.Name) else None
        if variable is None or len(variable.reads) != 1 or not variable.single or variable.scope is not self.node.host:
            return []
        value = variable.single
        statement = value if isinstance(value, ast.FunctionDef) else self.host.scopes.parents.get(value)
        plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        if not plain and not isinstance(statement, ast.FunctionDef):
            return []
        assert isinstance(statement, ast.stmt)
        first, end = statement.lineno, statement.end_lineno or statement.lineno
        before = source.text[source.line_starts[first - 1] : source.span(statement)[0]]
        behind = source.text[source.span(statement)[1] : source.line_starts[end]]
        if before.strip() or behind.strip() or end >= self.statement.lineno:
            return []
        if first > 1 and not source.line_text(first - 1).strip():
            while not source.line_text(end + 1).strip():
                end += 1
        return [Edit(source.file, source.line_starts[first - 1], source.line_starts[end], "")]


class HostNames:
    """Names for variables of host code, none of them one of `taken`, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def __call__(self, wish: str) -> str:
        """Return `wish`, or with a number the first that is free."""
        numbered = (f"{wish}_{i}" for i in range(2, 99))
        name = wish if wish not in self.taken else next(n for n in numbered if n not in self.taken)
        self.taken.add(name)
        return name
