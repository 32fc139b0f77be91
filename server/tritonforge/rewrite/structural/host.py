"""Edits of the host code around a kernel's launches that structural rewrites share."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

from tritonforge.domain.launch import Tensor
from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.grid import read_grid
from tritonforge.rewrite.rules.keyword_arguments import insert_keywords
from tritonforge.rewrite.rules.launch_values import LaunchNode, Refused, launches_in
from tritonforge.rewrite.rules.sharing import Sharing
from tritonforge.rewrite.scopes import FUNCTIONS, Scopes
from tritonforge.rewrite.structural.kernel_text import KernelText


class Host:
    """The launches of a kernel, all in one file, which a rewrite of its signature or grid has to follow.

    Raises:
        Refused: the kernel is not launched here, or is used in another way than being launched.
    """

    def __init__(self, text: KernelText) -> None:
        self.text = text
        self.source, self.scopes = text.source, text.scopes
        self.nodes = text.nodes_of_sites()
        self._check_uses()
        self.grids = [read_grid(self.scopes, n.grid) for n in self.nodes if n.grid is not None]
        if len(self.grids) != len(self.nodes):
            raise Refused("the grid of a launch cannot be read")

    def _check_uses(self) -> None:
        name = self.text.kernel.simple_name
        own = self.text.host_file == self.text.file
        heads = (ast.unparse(node.call.func).partition("[")[0] for node in self.nodes)
        called = {name} if own else {head for head in heads if "." not in head}
        self._check_names(self.scopes, called, self.nodes, inside="." in self.text.kernel.name)
        if not own:
            self._check_names(self.text.own_scopes, {name}, (), inside=False)

    def _check_names(
        self, scopes: Scopes, names: Collection[str], launches: Sequence[LaunchNode], *, inside: bool
    ) -> None:
        """Refuse a name of the kernel that is read outside of `launches`; `inside`: also where it is no module's."""
        for node in scopes.nodes:
            if not (isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)):
                continue
            variable = scopes.resolve(node)
            if variable is not None and not isinstance(variable.scope, ast.Module) and not inside:
                continue
            if not any(scopes.inside(node, launch.call.func) for launch in launches):
                raise Refused(f"{node.id} is used in another way than being launched at line {node.lineno}")

    @property
    def most_positional(self) -> int:
        """The most arguments that a launch passes by position.

        Raises:
            Refused: a launch spreads a sequence or a dict, so that nobody can tell.
        """
        for node in self.nodes:
            if any(isinstance(a, ast.Starred) for a in node.call.args):
                raise Refused(f"the launch at line {node.call.lineno} spreads its arguments")
        return max(len(node.call.args) for node in self.nodes)

    @property
    def has_torch(self) -> bool:
        """Tell whether torch goes by its name in the file with the launches."""
        return re.search(r"^import torch\b(?!\s+as\b)", self.source.text, re.MULTILINE) is not None

    def require_torch(self) -> None:
        """Check that torch goes by its name in the file with the launches.

        Raises:
            Refused: it does not.
        """
        if not self.has_torch:
            raise Refused("torch is not imported under its name")

    def names_set(self) -> set[str]:
        """Return the names that the file with the launch gives to something, functions and parameters included."""
        found = {n.id for n in self.scopes.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found |= {n.arg for n in self.scopes.nodes if isinstance(n, ast.arg)}
        return found | {n.name for n in self.scopes.nodes if isinstance(n, ast.FunctionDef)}

    def first_statement(self, places: Sequence[ast.AST]) -> ast.stmt:
        """Return the first statement of the function around the one launch that one of `places` stands in.

        Raises:
            Refused: the launch stands in no function, or a place outside of it.
        """
        around = self.nodes[0].host
        if around is None:
            raise Refused("the launch stands in no function")
        statements = []
        for place in places:
            chain = [place, *self.scopes.ancestors(place)]
            if not any(a is around for a in chain):
                raise Refused("the grid is made outside of the function that launches")
            # A statement of the function itself, not of a function of the grid.
            own = (a for a in chain if isinstance(a, ast.stmt) and self.scopes.function_of(a) is around)
            statements.append(next(own))
        return min(statements, key=lambda s: s.lineno)

    def extent(self, site: int, axis: int) -> ast.expr:
        """Return the expression of one axis of a launch's grid.

        Raises:
            Refused: it is computed in a way that cannot be edited, or another launch shares it.
        """
        grid, node = self.grids[site], self.nodes[site]
        alternatives = grid.axes.get(axis, [])
        if None in grid.axes or len(alternatives) != 1:
            raise Refused(f"the grid of the launch at line {node.call.lineno} is computed in a way that is not edited")
        extent = alternatives[0][0]
        others = [n for n in self.nodes if n is not node]
        sharing = Sharing(self.scopes, launches_in(self.scopes), self.nodes, self.grids)
        other = sharing.other_grid(extent, site)
        if other is not None and other not in others:
            raise Refused(f"the launch of another kernel at line {other.call.lineno} shares the grid")
        return extent

    def says_at_launch(self, site: int, expression: ast.expr) -> bool:
        """Tell whether `expression`, which stands somewhere else, means the same in the arguments of a launch."""
        node = self.nodes[site]
        for name in ast.walk(expression):
            if not isinstance(name, ast.Name):
                continue
            variable = self.scopes.resolve(name)
            if variable is None:
                continue
            once = variable.single is not None or (variable.parameter is not None and not variable.values)
            direct = self.scopes.inside(name, node.call)
            scope = variable.scope
            around = isinstance(scope, ast.Module) or any(a is scope for a in self.scopes.ancestors(node.call))
            imported = isinstance(scope, ast.Module)
            own = any(isinstance(a, FUNCTIONS) and a is scope for a in self.scopes.ancestors(expression))
            if not around or not (once or direct or imported or (own and len(variable.values) == 1)):
                return False
        return True

    def keywords(self, pairs: Sequence[Sequence[tuple[str, str]]]) -> tuple[Edit, ...]:
        """Return the edits that append keyword arguments to each launch."""
        return tuple(
            edit
            for node, new in zip(self.nodes, pairs, strict=True)
            for edit in insert_keywords(self.source, node.call, new)
        )

    def argument(self, site: int, parameter: str) -> ast.expr | None:
        """Return what a launch passes for a parameter of the kernel, where it is written at the launch."""
        call = self.nodes[site].call
        for keyword in call.keywords:
            if keyword.arg == parameter:
                return keyword.value
        known = self.text.kernel.parameter(parameter)
        if known is None or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        return call.args[known.index] if known.index < len(call.args) else None

    def passed(self, site: int, parameter: str) -> str:
        """Return what a launch passes for a parameter as text, of `*x.stride()` too; empty where it does not show it.

        `x` is then a tensor that the launch passes as well, whose recorded number of axes says how many there are.
        """
        given = self.argument(site, parameter)
        if given is not None:
            return self.source.segment(given)
        call, parameters = self.nodes[site].call, self.text.kernel.parameters
        place = 0
        ranks: dict[str, int] = {}
        for one in call.args:
            words = self.source.segment(one)
            axes = 1
            if isinstance(one, ast.Starred):
                owner, _, method = self.source.segment(one.value).rpartition(".")
                if method != "stride()" or owner not in ranks:
                    return ""
                axes = ranks[owner]
            elif place < len(parameters):
                tensor = dict(self.text.launch.problem.arguments).get(parameters[place].name)
                if isinstance(tensor, Tensor):
                    ranks[words] = len(tensor.shape)
            for axis in range(axes):
                if place + axis < len(parameters) and parameters[place + axis].name == parameter:
                    return f"{owner}.stride({axis})" if isinstance(one, ast.Starred) else words
            place += axes
        return ""

    def in_front(self, site: int, lines: Sequence[str]) -> Edit:
        """Return the edit that puts lines in front of the statement that a launch stands in.

        Raises:
            Refused: the launch shares its line with another statement.
        """
        statement, source = self._statement(site), self.source
        start, indent = source.span(statement)[0], self.indent_of(site)
        if source.text[start - len(indent) : start] != indent:
            raise Refused("the launch shares its line with another statement")
        return source.insert(start, "".join(f"{line}{source.newline}{indent}" for line in lines))

    def indent_of(self, site: int) -> str:
        """Return how far the statement that a launch stands in is indented."""
        line = self.source.line_text(self._statement(site).lineno)
        return line[: len(line) - len(line.lstrip())]

    def _statement(self, site: int) -> ast.stmt:
        return next(a for a in self.scopes.ancestors(self.nodes[site].call) if isinstance(a, ast.stmt))
