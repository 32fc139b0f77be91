"""The edits that a grid needs when tiles change."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.rewrite.rules.grid import Divisor, Grid, counted, divisors, meta_key
from tritonforge.rewrite.rules.launch_values import LaunchNode, Refused, Settings, integer, literal_in
from tritonforge.rewrite.rules.splits import split_counts
from tritonforge.rewrite.scopes import Variable


@dataclass(frozen=True)
class TileChange:
    """The tiles of one launch before and after.

    `by_variable` says which tiles a variable of the host code carries; `detached` are the variables that keep their
    value, so that the grid must no longer read them.
    """

    old: Mapping[str, int]
    new: Mapping[str, int]
    by_variable: Mapping[Variable, tuple[str, ...]]
    detached: frozenset[Variable] = frozenset()

    def changed(self, tile: str) -> bool:
        """Tell whether `tile` gets another value."""
        return self.old.get(tile) != self.new.get(tile)


@dataclass
class GridEdits:
    """Nodes to replace and by what; `divisions` are the texts of edited divisions with the tile each stands for."""

    replacements: dict[ast.expr, str] = field(default_factory=dict)
    divisions: dict[str, str] = field(default_factory=dict)

    def set(self, node: ast.expr, text: str) -> None:
        """Replace `node` by `text`.

        Raises:
            Refused: it was to become something else already.
        """
        if self.replacements.setdefault(node, text) != text:
            raise Refused(f"{ast.unparse(node)} at line {node.lineno} would have to become two different values")


def grid_edits(settings: Settings, launch: LaunchNode, grid: Grid, change: TileChange) -> GridEdits:
    """Return what must be replaced in `grid` so that it covers the same elements with the new tiles.

    Raises:
        Refused: a number cannot be told apart, or the grid does not visibly depend on a tile that it must depend on.
    """
    reader = _Reader(settings, launch, grid, change)
    for axis, alternatives in grid.axes.items():
        for alternative in alternatives:
            linked: set[str] = set()
            for expression in alternative:
                reader.read(axis, expression, linked)
            reader.linked.setdefault(axis, []).append(linked)
            reader.read_count(axis, alternative)
    reader.require_links()
    return reader.edits


class _Reader:
    def __init__(self, settings: Settings, launch: LaunchNode, grid: Grid, change: TileChange) -> None:
        self.settings = settings
        self.scopes = settings.scopes
        self.kernel = settings.kernel
        self.launch = launch
        self.grid = grid
        self.change = change
        self.axes = dict(self.kernel.program_axes)
        self.counts = {axis: name for name, axis in split_counts(self.kernel).items() if name in change.old}
        self.edits = GridEdits()
        self.linked: dict[int | None, list[set[str]]] = {}
        self.counted: dict[int, list[bool]] = {}

    def read(self, axis: int | None, expression: ast.expr, linked: set[str]) -> None:
        """Find everything in `expression` that stands for a tile; collect replacements, and the tiles in `linked`."""
        within: dict[ast.AST, Divisor] = {}
        for division in divisors(expression):
            within.update(dict.fromkeys(ast.walk(division.node), division))
        in_dicts = set[ast.AST]()
        for node in ast.walk(expression):
            key = meta_key(self.grid, node) or self._entry(node)
            if key is not None:
                linked.add(key)
                in_dicts.update(ast.walk(node))
            elif node not in in_dicts and (variable := self._host_variable(node)) is not None:
                tiles = self.change.by_variable[variable]
                if variable in self.change.detached:
                    inside = within.get(node)
                    tile = self._choose(axis, list(tiles), ast.unparse(node), inside.numerator if inside else None)
                    assert isinstance(node, ast.expr)
                    around = self.scopes.parents.get(node)
                    if isinstance(around, ast.Subscript) and around.value is node:
                        raise Refused(f"the grid reads {ast.unparse(around)}, which other code shares")
                    if self.change.changed(tile):  # else the launch goes on reading the variable, too
                        self.edits.set(node, str(self.change.new[tile]))
                    linked.add(tile)
                else:
                    linked.update(tiles)
        for division in divisors(expression):
            self._read_division(axis, division, linked)

    def read_count(self, axis: int | None, alternative: Sequence[ast.expr]) -> None:
        """Note where an alternative of an axis is the count of parts, and what follows where its number stands there.

        `SPLIT_K`, `META["SPLIT_K"]`, an entry of a dict or the number: nothing beside it.
        """
        count = self.counts.get(axis) if axis is not None else None
        if axis is None or count is None:
            return
        found = False
        for expression in alternative:
            variable = self._host_variable(expression)
            number = integer(expression) == self.change.old[count]
            if number and self.change.changed(count):
                self.edits.set(expression, str(self.change.new[count]))
            named = count == (meta_key(self.grid, expression) or self._entry(expression))
            found = found or number or named or (variable is not None and self._follows(variable, count))
        self.counted.setdefault(axis, []).append(found)

    def _follows(self, variable: Variable, count: str) -> bool:
        return variable not in self.change.detached and self.change.by_variable[variable] == (count,)

    def _entry(self, node: ast.AST) -> str | None:
        """Return `BLOCK` for `sizes["BLOCK"]`, an entry of the dict that the launch spreads: it follows the edit."""
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
            return None
        variable, key = self._host_variable(node.value), node.slice.value
        return key if variable is not None and key in self.change.by_variable[variable] else None

    def _read_division(self, axis: int | None, division: Divisor, linked: set[str]) -> None:
        for factor in division.factors:
            tile = self._tile_of(axis, factor, division.numerator)
            if tile is None:
                continue
            linked.add(tile)
            if not self.change.changed(tile):
                continue
            replace_factor(self.edits, division, factor, self.change.old[tile], self.change.new[tile])
            if factor in self.edits.replacements and self._host_variable(factor) is None:
                self.edits.divisions[ast.unparse(division.node)] = tile

    def _host_variable(self, factor: ast.AST) -> Variable | None:
        variable = self.scopes.resolve(factor) if isinstance(factor, ast.Name | ast.Attribute) else None
        return variable if variable in self.change.by_variable else None

    def _tile_of(self, axis: int | None, factor: ast.expr, numerator: str) -> str | None:
        key = meta_key(self.grid, factor) or self._entry(factor)
        if key is not None:
            return key if key in self.change.old else None
        variable = self._host_variable(factor)
        if variable is not None:
            tiles = self.change.by_variable[variable]
            return tiles[0] if len(tiles) == 1 else self._choose(axis, list(tiles), ast.unparse(factor), numerator)
        value = integer(factor)
        if value is None and isinstance(factor, ast.Name):
            # A variable that holds the tile's number while the launch spells the number out.
            other = self.scopes.resolve(factor)
            value = integer(literal_in(other.single)) if other is not None else None
        return None if value is None else self._tile_of_number(axis, value, numerator)

    def _tile_of_number(self, axis: int | None, value: int, numerator: str) -> str | None:
        on_axis = [t for t in self.axes.get(axis, ()) if self.change.old.get(t) == value] if axis is not None else []
        if on_axis:
            return self._choose(axis, on_axis, str(value), numerator)
        if axis is not None and self.axes.get(axis):
            return None
        placed = {t for tiles in self.axes.values() for t in tiles} if axis is not None else set()
        unplaced = [
            t for t, old in self.change.old.items() if old == value and self.change.changed(t) and t not in placed
        ]
        if not unplaced:
            return None
        proven = [t for t in unplaced if self._pairs_with(t, numerator)]
        if len(proven) == 1:
            return proven[0]
        raise Refused(
            f"cannot tell whether the {value} in the grid (line {self.launch.call.lineno}) stands for {unplaced[0]}"
        )

    def _choose(self, axis: int | None, tiles: list[str], text: str, numerator: str | None) -> str:
        """Return the one of `tiles` that `text`, a part of the grid, stands for."""
        placed = [t for t in tiles if t in self.axes.get(axis, ())] if axis is not None else []
        tiles = placed or tiles
        if len({self.change.new[t] for t in tiles}) == 1:
            return tiles[0]
        proven = [t for t in tiles if numerator is not None and self._pairs_with(t, numerator)]
        if len(proven) == 1:
            return proven[0]
        names = " or ".join(tiles)
        raise Refused(f"cannot tell whether {text} in the grid (line {self.launch.call.lineno}) stands for {names}")

    def _pairs_with(self, tile: str, numerator: str) -> bool:
        """Tell whether the kernel itself divides by `tile` what the launch passes as `numerator`."""
        names = {parameter for parameter, t in self._kernel_divisions() if t == tile}
        for name in names:
            parameter = self.kernel.parameter(name)
            assert parameter is not None
            passed = next((k.value for k in self.launch.call.keywords if k.arg == name), None)
            if passed is None and parameter.index < len(self.launch.call.args):
                passed = self.launch.call.args[parameter.index]
            if passed is not None and ast.unparse(passed) == numerator:
                return True
        return False

    def _kernel_divisions(self) -> Iterator[tuple[str, str]]:
        if self.settings.function is None:
            return
        for division in divisors(self.settings.function):
            for factor in division.factors:
                if isinstance(factor, ast.Name) and self.kernel.parameter(division.numerator) is not None:
                    yield division.numerator, factor.id

    def require_links(self) -> None:
        """Refuse when an axis is stepped by a changed tile that the grid does not depend on."""
        self._require_no_count()
        anywhere = set().union(*self.linked.get(None, ()))
        for axis, tiles in self.axes.items():
            links = self.linked.get(axis, [])
            parts, counted = self.counts.get(axis), self.counted.get(axis, [])
            if parts is not None and counted and all(counted):
                continue  # whatever the tile is, each program has its part of the loop
            if parts is not None and self.change.changed(parts):
                raise Refused(
                    f"{parts} counts the programs of axis {axis}, but the grid at line {self.launch.call.lineno} does "
                    "not say so"
                )
            for tile in tiles:
                if not self.change.changed(tile) or tile in anywhere:
                    continue
                count = sum(tile in linked for linked in links)
                # A branch that fixes the number of programs still covers its elements when each program does more.
                if count == 0 or (count < len(links) and self.change.new[tile] < self.change.old[tile]):
                    raise Refused(
                        f"the kernel multiplies program_id({axis}) by {tile}, but axis {axis} of the grid at line "
                        f"{self.launch.call.lineno} does not visibly depend on it"
                    )

    def _require_no_count(self) -> None:
        """Refuse another tile where a table on the device says which rows each program has: it is made for one tile."""
        placed = {tile for tiles in self.axes.values() for tile in tiles}
        stepped = {loop.step_tile for loop in self.kernel.loops}
        rest = [t for t in self.change.old if self.change.changed(t) and t not in placed | stepped]
        for axis, alternatives in self.grid.axes.items():
            if not rest or axis is None or self.axes.get(axis):
                continue
            for alternative in alternatives:
                count = counted(self.scopes, alternative)
                if count is not None:
                    raise Refused(
                        f"axis {axis} of the grid is counted on the device ({ast.unparse(count)} at line "
                        f"{count.lineno}), and {rest[0]} may be what it is counted with"
                    )


def replace_factor(edits: GridEdits, division: Divisor, factor: ast.expr, old: int, new: int) -> None:
    """Replace `factor` where it is a number, and the numbers of the rounding sum that go with it."""
    named = isinstance(factor, ast.Name | ast.Attribute)
    if integer(factor) is not None or (named and factor in edits.replacements):
        edits.set(factor, str(new))
    literals = [t for t in division.terms if integer(t) is not None]
    for term in literals:
        value = integer(term)
        if value == old - 1 and old > 1:
            edits.set(term, str(new - 1))
        elif value == old and any(integer(t) == 1 for t in literals):
            edits.set(term, str(new))


def same_divisions(host: ast.AST, edits: GridEdits, change: TileChange) -> GridEdits:
    """Return the replacements for divisions elsewhere in the host function that are written as edited ones were.

    The same quotient there counts the same programs (the size of a buffer of partial results, say).
    """
    out = GridEdits()
    for division in divisors(host):
        tile = edits.divisions.get(ast.unparse(division.node))
        if tile is not None and division.node not in edits.replacements:
            for factor in division.factors:
                if integer(factor) == change.old[tile]:
                    replace_factor(out, division, factor, change.old[tile], change.new[tile])
    return out
