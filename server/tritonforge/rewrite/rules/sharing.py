"""Who else depends on a place that is about to be edited."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tritonforge.rewrite.rules.grid import Grid, read_grid
from tritonforge.rewrite.rules.launch_values import LaunchNode
from tritonforge.rewrite.scopes import Read, Scopes, Variable


class Sharing:
    """The launches of one kernel (`sites`, with their grids) among all launches of a file."""

    def __init__(
        self, scopes: Scopes, launches: Sequence[LaunchNode], sites: Sequence[LaunchNode], grids: Sequence[Grid]
    ) -> None:
        self.scopes = scopes
        self.sites = sites
        self.grids = grids
        mine = {id(s.call) for s in sites}
        self.others = [node for node in launches if id(node.call) not in mine]
        self.other_grids = [read_grid(scopes, n.grid) if n.grid is not None else Grid() for n in self.others]

    def used_elsewhere(self, chain: Sequence[Variable]) -> str:
        """Say where something that must not change with this kernel reads a variable of `chain`, if anything does.

        Host code around a launch of this kernel (assertions, sizes of buffers) follows the variable and is no obstacle;
        another kernel's launch, a kernel's body, or any other function is.
        """
        for read in self._reads(chain):
            if self._is_own(read):
                continue
            for node, grid in zip(self.others, self.other_grids, strict=True):
                if self._within(read, node, grid):
                    return f"by another launch at line {node.call.lineno}"
            function = self.scopes.function_of(read)
            if function is None or not any(self.scopes.inside(read, s.host) for s in self.sites if s.host is not None):
                name = f"in {function.name}()" if function is not None else "at module level"
                return f"{name} at line {read.lineno}"
        return ""

    def follower(self, chain: Sequence[Variable]) -> Read | None:
        """Return host code around a launch, outside launches and grids, that reads a variable of `chain`.

        A test that only decides what the variable itself is set to is none.
        """
        tests = self.scopes.tests_around(chain)
        for read in self._reads(chain):
            if any(self.scopes.inside(read, test) for test in tests):
                continue
            hosts = [s.host for s in self.sites if s.host is not None]
            others = zip(self.others, self.other_grids, strict=True)
            if self._is_own(read) or any(self._within(read, n, g) for n, g in others):
                continue
            if any(self.scopes.inside(read, host) for host in hosts):
                return read
        return None

    def other_grid(self, node: ast.AST, site: int) -> LaunchNode | None:
        """Return another launch, of whatever kernel, whose grid is computed by the source that `node` stands in."""
        mine = [(s, g) for i, (s, g) in enumerate(zip(self.sites, self.grids, strict=True)) if i != site]
        for launch, grid in (*zip(self.others, self.other_grids, strict=True), *mine):
            if any(self.scopes.inside(node, root) for root in grid.roots):
                return launch
        return None

    def in_other_launch(self, node: ast.AST) -> bool:
        """Tell whether `node` is part of another kernel's launch."""
        return any(self.scopes.inside(node, other.call) for other in self.others)

    def _reads(self, chain: Sequence[Variable]) -> Iterator[Read]:
        # The launch's own variable comes first; each is set from the next, and that read is the chain itself.
        variables = self.scopes.alike(chain)
        links = {id(value) for v in variables for value in v.values}
        for variable in variables:
            yield from (read for read in variable.reads if id(read) not in links)

    def _is_own(self, read: Read) -> bool:
        return any(self._within(read, s, g) for s, g in zip(self.sites, self.grids, strict=True)) and not any(
            self._within(read, s, g) for s, g in zip(self.others, self.other_grids, strict=True)
        )

    def _within(self, read: ast.AST, launch: LaunchNode, grid: Grid) -> bool:
        return self.scopes.inside(read, launch.call) or any(self.scopes.inside(read, root) for root in grid.roots)
