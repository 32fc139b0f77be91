"""Several rows per program: a two-dimensional tile in place of programs that are too small to fill a warp scheduler.

What depended on the row becomes a column of rows, `[ROWS, 1]`, and meets what spans a row, `[BLOCK]`, by Triton's own
broadcasting; reductions keep their axis. So the kernel's text hardly changes. Where launches have rows of different
widths, host code counts the rows of a program from the width (`rows_by_width`).

Preconditions: one program id is one row (it is a variable of its own, and the grid has no tile on that axis); rows do
not branch, bound loops, enter a dot or a helper; nothing spans more than one axis. Loads and stores of rows get a mask,
and the grid in the host code is divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.source import Edit
from tritonforge.prediction.gpus import gpu_for
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import (
    REDUCTIONS,
    SCANS,
    argument,
    elements,
    grouped,
    integer,
    name_of,
    value_of,
    with_mask,
    with_value,
)
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.rows_by_width import RowsByWidth, Width, tiles_for

_MOST_ELEMENTS = 16_384
_TARGET = 2048
"""Elements of a program's tile: 16 for each thread of 4 warps."""
_PLAIN = frozenset({"program_id", "num_programs", "arange", "store", "load", "zeros", "full", "zeros_like"})


class SeveralRows:
    """`program_id` as a column of rows."""

    name = "several-rows"
    treats = frozenset({"TF304", "TF301", "TF208", "TF401"})
    classes: frozenset[BottleneckClass] = frozenset({"block-too-small", "latency", "low-occupancy"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield tiles of 2 to 64 rows, those of about 2,048 elements first; or sizes of a tile where widths differ."""
        if not text.triton:
            raise Refused("triton is not imported under a name of its own, so that the grid cannot be divided with it")
        host = Host(text)
        flow = flow_of(text.function, text.kernel, text.tl)
        row = _row(text, flow)
        axis = row.axis
        width, extent_of_width = _width(text, flow, axis)
        rows = text.launch.config.grid[axis]
        for name, tile in text.kernel.program_axes:
            if name == axis and tile:
                raise Refused(f"the programs of axis {axis} hold tiles of {tile[0]} already")
        by_width = _tiles_by_width(text, flow, axis)
        if not by_width:
            wanted = _counts(width, rows, text.task.arch)
        check(text, flow, axis)
        extents = [host.extent(i, axis) for i in range(len(host.nodes))]
        known = _known_count(text, host, extents, rows)
        tile_name = rows_tile_name(text)
        counted: RowsByWidth | None = None
        if by_width:
            try:
                counted = RowsByWidth(text, host, extent_of_width, extents[0], tile_name)
            except Refused:
                wanted = _counts(width, rows, text.task.arch)
        count = known or text.fresh(*_count_names(extents))
        function = _widened(text, flow, row, tile_name, count)
        least = host.most_positional
        if not known:
            for i, extent in enumerate(extents):
                if not host.says_at_launch(i, extent):
                    raise Refused(f"the number of rows, {text.source.segment(extent)}, is not known at the launch")
            function = with_parameter(function, count, least=least)
        function = with_parameter(
            function, tile_name, constexpr=f"{text.tl}.constexpr", least=least + (0 if known else 1)
        )
        kernel_edits = text.edits(function)

        def change(title: str, factor: int, words: str, more: Iterable[Edit], parameter: int) -> Change:
            pairs = []
            edits = [*kernel_edits, *more]
            for extent in extents:
                segment = text.source.segment(extent)
                new = [] if known else [(count, segment)]
                pairs.append([*new, (tile_name, words)])
            for extent in dict.fromkeys(extents):
                segment = text.source.segment(extent)
                edits.append(text.source.replace(extent, f"{text.triton}.cdiv({segment}, {words})"))
            edits.extend(host.keywords(pairs))
            grid = list(text.launch.config.grid)
            grid[axis] = -(-rows // factor)
            new_grid = (grid[0], grid[1], grid[2])
            return Change(title, tuple(edits), ((tile_name, str(parameter)),), {tile_name: factor}, new_grid)

        if counted is None:
            for factor in wanted:
                yield change(f"{factor} rows per program", factor, str(factor), (), factor)
            return
        for elements_in_all in by_width:
            title = f"several narrow rows per program, {elements_in_all:,} elements in all"
            factor = max(1, elements_in_all // width)
            yield change(title, factor, counted.name, counted.edits(elements_in_all), elements_in_all)


@dataclass(frozen=True)
class Row:
    """The `axis` whose programs are rows, the variable of the row, and the assignment of it."""

    axis: int
    variable: str
    assignment: cst.Assign


def _row(text: KernelText, flow: Flow) -> Row:
    found: list[tuple[int, str, cst.Assign]] = []
    calls: dict[int, int] = {}
    for node in nodes_of(text.function):
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "program_id":
            axis = integer(value_of(node, "program_id", "axis"))
            if axis is None:
                raise Refused("a program id is asked for along an axis that is computed")
            calls[axis] = calls.get(axis, 0) + 1
        if isinstance(node, cst.Call) and name_of(node, text.tl) == "num_programs":
            raise Refused("the kernel asks for the number of its programs")
    for node in flow.statements.values():
        if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
            inner = _program_id(node.value, text.tl)
            axis = integer(value_of(inner, "program_id", "axis")) if inner is not None else None
            if axis is not None and calls.get(axis) == 1:
                found.append((axis, node.targets[0].target.value, node))
    tiles = dict(text.kernel.program_axes)
    rows = [one for one in found if not tiles.get(one[0])]
    if not rows:
        raise Absent("no variable of the kernel is a program id that stands for one row")
    # The axis with the most programs.
    return Row(*max(rows, key=lambda one: (text.launch.config.grid[one[0]], -one[0])))


def _program_id(node: cst.BaseExpression, tl: str) -> cst.Call | None:
    """Return the `program_id` call that `node` is, perhaps cast."""
    if not isinstance(node, cst.Call):
        return None
    if name_of(node, tl) == "program_id":
        return node
    if name_of(node, tl) == "cast":
        return _program_id(node.args[0].value, tl)
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
        return _program_id(node.func.value, tl)
    return None


def _width(text: KernelText, flow: Flow, axis: int) -> tuple[int, str]:
    """Return how many elements a program's widest block has in the recorded launch, and its extent as text."""
    sizes = [(1, "1")]
    for value in flow.values.values():
        if axis in value.programs and value.shape is not None:
            extents = [text.size(e) for e in value.shape]
            if any(e is None for e in extents):
                raise Refused("how wide a row's block is cannot be told")
            sizes.append((math.prod(e for e in extents if e is not None), " * ".join(value.shape)))
    return max(sizes, key=lambda one: one[0])


def _tiles_by_width(text: KernelText, flow: Flow, axis: int) -> list[int]:
    """Return the sizes of a tile to try where recorded launches have rows of different widths; else nothing."""
    launches = text.task.launches
    found = [_width(text.at(launch), flow, axis) for launch in launches]
    extents = {extent for size, extent in found if size > 1}
    if len({size for size, _ in found}) == 1 or len(extents) != 1 or not extents.pop().isidentifier():
        return []
    widths = [Width(size, one.config.grid[axis]) for (size, _), one in zip(found, launches, strict=True)]
    return tiles_for(widths, _units(text.task.arch))


def _units(arch: str) -> int:
    spec = gpu_for(arch)
    return spec.sms if spec else 100


def _counts(width: int, rows: int, arch: str) -> list[int]:
    units = _units(arch)
    fitting = [f for f in (2, 4, 8, 16, 32, 64) if f * width <= _MOST_ELEMENTS and rows / f >= units]
    if not fitting:
        how = f"rows of {width} elements fill a program" if 2 * width > _MOST_ELEMENTS else f"{rows} rows are few"
        raise Refused(f"{how}, so that several of them in a program gain nothing")
    return sorted(fitting, key=lambda f: (abs(math.log2(f * width / _TARGET)), f))[:3]


def rows_tile_name(text: KernelText) -> str:
    """Return what the number of rows in a tile is called, in the words of the kernel's own tiles."""
    for tile in text.kernel.tiles:
        if tile.endswith("_N"):
            return text.fresh(f"{tile[:-1]}M", f"{tile[:-1]}ROWS", "ROWS_PER_PROGRAM")
        if tile.islower():
            return text.fresh("block_rows", "rows_per_program")
    if any(tile.startswith("BLOCK") for tile in text.kernel.tiles):
        return text.fresh("BLOCK_ROWS", "ROWS_PER_PROGRAM")
    return text.fresh("ROWS", "ROWS_PER_PROGRAM")


def _count_names(extents: list) -> list[str]:  # type: ignore[type-arg]
    own = [e.id for e in extents[:1] if type(e).__name__ == "Name"]
    return [*own, "n_rows", "num_rows", "row_count"]


def _known_count(text: KernelText, host: Host, extents: list, rows: int) -> str | None:  # type: ignore[type-arg]
    """Return the parameter that is the number of rows already, if every launch passes just that."""
    for parameter in text.kernel.parameters:
        if parameter.constexpr or text.value(parameter.name) != rows:
            continue
        given = [host.argument(i, parameter.name) for i in range(len(host.nodes))]
        same = [
            g is not None and text.source.segment(g) == text.source.segment(e)
            for g, e in zip(given, extents, strict=True)
        ]
        if all(same):
            return parameter.name
    return None


def check(text: KernelText, flow: Flow, axis: int) -> None:
    """Check that everything that depends on the row can become a column of rows.

    Raises:
        Refused: something cannot; the sentence names it.
    """

    def depends(node: cst.CSTNode) -> bool:
        return axis in flow.of(node).programs

    for call in flow.unknown:
        parts = [a.value for a in call.args] + ([call.func.value] if isinstance(call.func, cst.Attribute) else [])
        if any(depends(p) for p in parts):
            raise Refused(f"values of a row are handed to {code(call.func)}(), which is not looked into")
    for node in nodes_of(text.function):
        match node:
            case cst.If(test=test) | cst.While(test=test) | cst.IfExp(test=test) if depends(test):
                raise Refused(f"the kernel branches on a value of the row: {code(test)}")
            case cst.For(iter=bounds) if depends(bounds) or any(depends(n) for n in nodes_of(bounds)):
                raise Refused("a loop's bounds depend on the row")
            case cst.Subscript(value=value) if depends(value):
                raise Refused(f"a value of the row is indexed: {code(node)}")
            case cst.BooleanOperation() if depends(node):
                raise Refused(f"a value of the row stands under `and` or `or`: {code(node)}")
            case cst.Comparison(comparisons=several) if len(several) > 1 and depends(node):
                raise Refused(f"a value of the row is compared in a chain: {code(node)}")
            case cst.Call():
                _check_call(node, flow, text.tl, axis)
            case _:
                pass
        known = flow.values.get(id(node))
        if known is not None and axis in known.programs and not isinstance(node, cst.Tuple | cst.List):
            if known.shape is None and not _is_void(node, text.tl):
                raise Refused(f"the shape of {_short(node)} cannot be told")
            if known.shape is not None and len(known.shape) > 1:
                raise Refused(f"{_short(node)} spans two axes already")


def _check_call(node: cst.Call, flow: Flow, tl: str, axis: int) -> None:
    name = name_of(node, tl)
    values = [flow.of(a.value) for a in node.args]
    if name is None or not any(axis in v.programs for v in values):
        return
    pointer = flow.of(node.args[0].value)
    if name.startswith("atomic_") or name == "store":
        if axis not in pointer.programs:
            raise Refused(f"{name} puts values of all rows in one place")
    elif name in REDUCTIONS:
        if argument(node, name, "keep_dims") or argument(node, name, "return_indices"):
            raise Refused(f"{_short(node)} keeps its dimensions or returns indices")
        if pointer.shape is not None and len(pointer.shape) != 1:
            raise Refused(f"{_short(node)} does not reduce a row")
    elif name in {"dot", "trans", "reshape", "broadcast_to", "expand_dims", "view", "multiple_of", "max_contiguous"}:
        raise Refused(f"a value of the row enters {name}")
    elif name in {"rand", "randint", "randn"} and axis in pointer.programs:
        raise Refused("the seed of random numbers depends on the row")
    elif name in {"sort", "flip", "softmax", "associative_scan", "gather", "split", "assume", "zeros_like"}:
        raise Refused(f"a value of the row enters {name}")


def _is_void(node: cst.CSTNode, tl: str) -> bool:
    return isinstance(node, cst.Call) and (name_of(node, tl) or "").startswith(("store", "static", "device", "range"))


def _short(node: cst.CSTNode) -> str:
    text = " ".join(code(node).split())
    return text if len(text) <= 50 else f"{text[:47]}…"


def _widened(text: KernelText, flow: Flow, row: Row, tile: str, count: str) -> cst.FunctionDef:
    unfit = row.variable in {"pid", "pid_0", "pid0", "program", "i", "idx", "program_id"}
    name = text.fresh("row", "rows") if unfit else row.variable
    mask = text.fresh(f"{name}_mask", "in_rows", "row_in_bounds")
    initials = _initials(text, flow, row.axis)
    body = text.function.body.visit(_Widen(text.tl, flow, row, initials, _Names(name, tile, count, mask)))
    assert isinstance(body, cst.BaseSuite)
    return text.function.with_changes(body=body)


def _initials(text: KernelText, flow: Flow, axis: int) -> frozenset[int]:
    """Return the assignments that give a loop its first value of something that depends on the row from then on."""
    out: set[int] = set()
    constexprs = {p.name for p in text.kernel.parameters if p.constexpr}
    for node in nodes_of(text.function):
        if not isinstance(node, cst.For | cst.While | cst.If):
            continue
        if isinstance(node, cst.If):
            names = {n.value for n in nodes_of(node.test) if isinstance(n, cst.Name)}
            if names <= constexprs | {"None"}:
                continue
        for name, pair in flow.meets.get(id(node), {}).items():
            if {axis in value.programs for value in pair} != {True, False}:
                continue
            plain = next(value for value in pair if axis not in value.programs)
            if not plain.definitions:
                raise Refused(f"the parameter {name} becomes a value of the row in a loop or branch")
            out |= plain.definitions
    return frozenset(out)


@dataclass(frozen=True)
class _Names:
    """What the rows, the tile of them, their number and the mask of those that there are are called."""

    row: str
    tile: str
    count: str
    mask: str


class _Widen(cst.CSTTransformer):
    def __init__(self, tl: str, flow: Flow, row: Row, initials: frozenset[int], names: _Names) -> None:
        super().__init__()
        self.tl, self.flow, self.axis = tl, flow, row.axis
        self.assignment, self.initials = row.assignment, initials
        self.renamed = {row.variable: names.row}
        self.row, self.tile, self.count, self.mask = names.row, names.tile, names.count, names.mask

    def depends(self, node: cst.CSTNode) -> bool:
        return self.axis in self.flow.of(node).programs

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self.renamed.get(updated_node.value, updated_node.value))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        if original_node is self.assignment:
            value = cst.parse_expression(
                f"{code(updated_node.value)} * {self.tile} + {self.tl}.arange(0, {self.tile})[:, None]"
            )
            return updated_node.with_changes(value=value)
        if id(original_node) in self.initials:
            return updated_node.with_changes(value=self.wide(original_node.value, updated_node.value))
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        if self.assignment not in original_node.body:
            return updated_node
        line = cst.parse_statement(f"{self.mask} = {self.row} < {self.count}")
        assert isinstance(line, cst.SimpleStatementLine)
        return cst.FlattenSentinel([updated_node, line])

    def wide(self, original: cst.BaseExpression, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a first value, which is the same for all rows, with one for each row."""
        name = name_of(original, self.tl)
        if isinstance(node, cst.Call) and name in {"zeros", "full"}:
            shape = argument(node, name, "shape")
            parts = elements(shape.value) if shape is not None else None
            if shape is not None and parts is not None and len(parts) == 1:
                opening, closing = ("[", "]") if isinstance(shape.value, cst.List) else ("(", ")")
                wide = cst.parse_expression(f"{opening}{self.tile}, {code(parts[0])}{closing}")
                return with_value(node, shape, "shape", wide)
        whole = integer(original)
        is_float = isinstance(original, cst.Float) or code(original).replace(" ", "") in {
            'float("-inf")', "float('-inf')", '-float("inf")', "-float('inf')", 'float("inf")', "float('inf')",
        }  # fmt: skip
        negative = isinstance(original, cst.UnaryOperation) and isinstance(original.expression, cst.Float)
        if whole is None and not is_float and not negative:
            raise Refused(f"the first value {_short(original)} cannot be given to every row")
        dtype = "int32" if whole is not None else "float32"
        if code(original) in {"0", "0.0"}:
            return cst.parse_expression(f"{self.tl}.zeros(({self.tile}, 1), {self.tl}.{dtype})")
        return cst.parse_expression(f"{self.tl}.full(({self.tile}, 1), {code(original)}, {self.tl}.{dtype})")

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = name_of(original_node, self.tl)
        if name is None or not original_node.args:
            return updated_node
        first = self.flow.of(original_node.args[0].value)
        if self.axis not in first.programs:
            return updated_node
        if name in REDUCTIONS:
            updated = with_value(updated_node, argument(updated_node, name, "axis"), "axis", cst.Integer("1"))
            return with_value(updated, None, "keep_dims", cst.Name("True"))
        if name in SCANS:
            return with_value(updated_node, argument(updated_node, name, "axis"), "axis", cst.Integer("1"))
        if name in {"load", "store"} or name.startswith("atomic_"):
            return self.masked(original_node, updated_node, name)
        return updated_node

    def masked(self, original: cst.Call, updated: cst.Call, name: str) -> cst.Call:
        value = "value" if name == "store" else "val"
        stored = argument(updated, name, value) if name != "load" else None
        was = value_of(original, name, value) if name != "load" else None
        if stored is not None and was is not None and not self.depends(was):
            shape = self.flow.of(was).shape
            if shape is None or len(shape) > 1:
                raise Refused(f"the shape of {_short(was)} cannot be told")
            if len(shape) == 1:
                updated = with_value(
                    updated, stored, value, cst.parse_expression(f"{code(grouped(stored.value))}[None, :]")
                )
        other = value_of(original, name, "other") if name == "load" else None
        if other is not None and self.flow.of(other).shape != ():
            raise Refused(f"what stands in for masked elements, {_short(other)}, is no single value")
        return with_mask(updated, name, self.mask)
