"""How many rows a program takes where launches have rows of different widths: as many as make a tile of one size.

One number would make a spilling tile of wide rows, or leave narrow ones tiny. So host code counts them from the width
that it knows: `BLOCK_M = max(1, 2048 // BLOCK_N)`, a power of two, since widths are.

Preconditions: one launch, whose recorded widths differ; one constexpr is the width of a program's block; the launch
shows it, and it is known in front of the statement that the grid stands in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritonforge.domain.source import Edit
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText

_TILES = (2048, 4096, 1024)
"""Elements of a program's tile: 16, 32 and 8 for each thread of 4 warps."""


@dataclass(frozen=True)
class Width:
    """A recorded launch: how wide its rows are, and how many."""

    elements: int
    rows: int


def tiles_for(widths: Sequence[Width], units: int) -> list[int]:
    """Return the sizes of a tile with which some launch has several rows in a program, and none too few programs."""

    def fits(tile: int) -> bool:
        counts = [max(1, tile // w.elements) for w in widths]
        return max(counts) > 1 and all(n == 1 or w.rows / n >= units for n, w in zip(counts, widths, strict=True))

    return [tile for tile in _TILES if fits(tile)]


class RowsByWidth:
    """The variable of host code that says how many rows a program takes.

    Args:
        text: the kernel.
        host: its one launch.
        width: the constexpr that is the width of a row's block.
        grid: the expression of the grid that is divided by the number of rows.
        wish: what the variable is called, if nothing else is.

    Raises:
        Refused: the width is not known in front of the grid.
    """

    def __init__(self, text: KernelText, host: Host, width: str, grid: ast.expr, wish: str) -> None:
        self.source = text.source
        if len(host.nodes) != 1:
            raise Refused("the kernel is launched in several places")
        taken = host.names_set()
        if "max" in taken:
            raise Refused("max is a variable of the file that launches it")
        self.statement = host.first_statement([host.nodes[0].call, grid])
        self.words = self._width_words(text, host, width)
        self.name = next(n for n in (wish, *(f"{wish}_{i}" for i in range(2, 99))) if n not in taken)

    def _width_words(self, text: KernelText, host: Host, width: str) -> str:
        unknown = Refused(f"{width}, by which rows differ, is not known in front of the grid")
        given = host.argument(0, width)
        if given is not None:
            if not host.says_at_launch(0, given) or self._is_late(host, given):
                raise unknown
            return self.source.segment(given)
        entry = text.settings().entry(host.nodes[0].call, width)
        spread = None if entry is None else entry[0]
        if spread is None or self._is_late(host, spread):
            raise unknown
        return f'{self.source.segment(spread)}["{width}"]'

    def _is_late(self, host: Host, expression: ast.expr) -> bool:
        """Tell whether the host function sets something that an expression reads behind the place of the variable."""
        for name in ast.walk(expression):
            variable = host.scopes.resolve(name) if isinstance(name, ast.Name) else None
            if variable is None or isinstance(variable.scope, ast.Module):
                continue
            if variable.scope is not host.nodes[0].host:
                return True
            late = (
                n
                for n in ast.walk(variable.scope)
                if isinstance(n, ast.Name) and n.id == variable.name and isinstance(n.ctx, ast.Store)
            )
            if any(n.lineno >= self.statement.lineno for n in late):
                return True
        return False

    def edits(self, tile: int) -> Iterator[Edit]:
        """Yield the edit that counts the rows of a tile of as many elements, in front of the grid."""
        line = self.source.line_text(self.statement.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        words = f"{self.name} = max(1, {tile} // {self.words})  # narrow rows share a program"
        yield self.source.insert(self.source.span(self.statement)[0], f"{words}{self.source.newline}{indent}")
