"""A loop over rows, one after the other, as a loop over tiles of several rows that are put together once, behind it.

A round that loads one row of a block of columns has one narrow load to wait for. A tile of `[BLOCK_ROWS, BLOCK]` has
many of full width under way at once, and adds to as many sums, which `tl.sum(axis=0)` puts together at the end.

Preconditions: a loop from 0 in steps of 1 in the kernel's body, of plain statements, which loads blocks of one axis
and stores nothing; it carries sums, maxima and minima of one axis alone, in fp32 and begun at a constant in front of
it; what depends on the row spans no more than one axis and enters nothing but arithmetic and reductions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.blocked_rounds import Loop, ToBlocks
from tritonforge.rewrite.structural.calls import (
    ELEMENTWISE,
    REDUCTIONS,
    argument,
    elements,
    leaf_of,
    name_of,
    with_value,
)
from tritonforge.rewrite.structural.carried import Carried, carried_by
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Names, code, line_of, nodes_of
from tritonforge.rewrite.structural.loops import Span, names_in, simple_statements, spans_of
from tritonforge.rewrite.structural.parameters import with_parameter
from tritonforge.rewrite.structural.several_rows import rows_tile_name

_TARGET = 4096
"""Elements of a tile: 32 for each thread of 4 warps."""
_MOST_ROWS = 64
_LEAST_ROUNDS = 4
_ALLOWED = ELEMENTWISE | REDUCTIONS | {"load", "multiple_of", "max_contiguous"}


class RowTiles:
    """Tiles of rows in place of single ones."""

    name = "row-tiles"
    treats = frozenset({"TF102", "TF206", "TF208", "TF302"})
    classes: frozenset[BottleneckClass] = frozenset({"grid-too-small", "latency", "low-occupancy"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield three heights of a tile, that of about 4,096 elements first."""
        flow = flow_of(text.function, text.kernel, text.tl)
        span = _span(text, flow)
        results = _checked(text, flow, span)
        heights = _heights(text, span, results)
        host = Host(text)
        tile = rows_tile_name(text)
        function = with_parameter(
            _tiled(text, flow, span, results, tile),
            tile,
            constexpr=f"{text.tl}.constexpr",
            least=host.most_positional,
        )
        edits = text.edits(function)
        for height in heights:
            pairs = [[(tile, str(height))] for _ in host.nodes]
            yield Change(
                f"the loop over {span.stop} in tiles of {height} rows",
                (*edits, *host.keywords(pairs)),
                ((tile, str(height)),),
                {tile: height},
            )


def _span(text: KernelText, flow: Flow) -> Span:
    for span in spans_of(text):
        loads = [
            n
            for n in nodes_of(span.node.body)
            if isinstance(n, cst.Call)
            and name_of(n, text.tl) == "load"
            and span.variable in flow.of(n.args[0].value).steps
        ]
        shapes = [flow.of(n.args[0].value).shape for n in loads]
        dot = any(name_of(n, text.tl) == "dot" for n in nodes_of(span.node.body))
        if span.step == "1" and not dot and any(s is not None and len(s) == 1 for s in shapes):
            return span
    raise Absent("no loop loads one row of a block after the other")


def _checked(text: KernelText, flow: Flow, span: Span) -> tuple[Carried, ...]:
    """Return what the loop carries.

    Raises:
        Refused: rounds cannot be the rows of a tile (`Absent` where they store).
    """
    statements = simple_statements(span.node.body)
    if statements is None:
        raise Refused("the loop over rows branches, or has a loop in it")
    for node in nodes_of(span.node.body):
        called = name_of(node, text.tl) or ""
        if called.startswith(("store", "atomic_")):
            raise Absent("the loop over rows stores something")
    carrying = carried_by(text, flow, span)
    moved = next((a.name for a in carrying.advances if a.step), "")
    if moved:
        raise Refused(f"{moved} moves on with every row")
    for result in carrying.results:
        if result.kind not in {"sum", "max", "min"} or len(result.shape) != 1 or result.dtype != "float32":
            raise Refused(f"{result.name} is no sum, maximum or minimum of one axis in fp32")
        _start(text, span, result)
    for node in nodes_of(span.node.body):
        _check_node(text, flow, span, node)
    return carrying.results


def _start(text: KernelText, span: Span, result: Carried) -> cst.Assign:
    """Return the assignment in front of the loop that a result begins with.

    Raises:
        Refused: it is touched otherwise before the loop.
    """
    touching = [s for s in text.function.body.body[: span.place] if result.name in names_in(s)]
    line = touching[0] if len(touching) == 1 else None
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    value = small.value if isinstance(small, cst.Assign) else None
    shape = argument(value, name_of(value, text.tl) or "", "shape") if isinstance(value, cst.Call) else None
    if not isinstance(small, cst.Assign) or shape is None or elements(shape.value) is None:
        raise Refused(f"what {result.name} begins as is not written out once")
    return small


def _check_node(text: KernelText, flow: Flow, span: Span, node: cst.CSTNode) -> None:
    """Check that an expression of the loop is the same for a tile of rows."""

    def varies(one: cst.CSTNode) -> bool:
        return span.variable in flow.of(one).steps

    if isinstance(node, cst.Call):
        called = name_of(node, text.tl)
        method = isinstance(node.func, cst.Attribute) and called is None and node.func.attr.value == "to"
        if method:
            return
        if not any(varies(a.value) for a in node.args):
            return
        if called not in _ALLOWED and not (called is None and leaf_of(node) in ELEMENTWISE):
            raise Refused(f"a value of the row enters {code(node.func)}()")
        if called == "load" and not varies(node.args[0].value):
            raise Refused("whether something is loaded depends on the row, where it lies does not")
        if called in REDUCTIONS:
            shape = flow.of(node.args[0].value).shape
            kept = argument(node, called or "", "keep_dims") or argument(node, called or "", "return_indices")
            if kept or shape is None or len(shape) != 1:
                raise Refused(f"{code(node)} does not reduce a row")
        return
    if not isinstance(node, cst.BaseExpression) or not varies(node):
        return
    if isinstance(node, cst.Subscript | cst.BooleanOperation | cst.IfExp | cst.Tuple | cst.List):
        raise Refused(f"a value of the row is used in {code(node)}")
    if isinstance(node, cst.Comparison) and len(node.comparisons) > 1:
        raise Refused(f"a value of the row is compared in a chain: {code(node)}")
    shape = flow.of(node).shape
    if shape is None or len(shape) > 1:
        raise Refused(f"{code(node)} is not known to span one axis")


def _heights(text: KernelText, span: Span, results: Sequence[Carried]) -> list[int]:
    widths = [text.size(result.shape[0]) for result in results]
    if any(w is None for w in widths):
        raise Refused("how wide a row's block is cannot be told")
    width = max(w for w in widths if w is not None)
    rounds = text.size(span.stop)
    fitting = [
        1 << e
        for e in range(1, int(math.log2(_MOST_ROWS)) + 1)
        if width << e <= 4 * _TARGET and (rounds is None or rounds >= _LEAST_ROUNDS << e)
    ]
    if not fitting:
        how = f"rows of {width} elements fill a program" if 2 * width > 4 * _TARGET else f"{rounds} rows are few"
        raise Refused(f"{how}, so that tiles of several gain nothing")
    return sorted(fitting, key=lambda h: (abs(math.log2(h * width / _TARGET)), h))[:3]


def _tiled(text: KernelText, flow: Flow, span: Span, results: Sequence[Carried], tile: str) -> cst.FunctionDef:
    tl, fresh = text.tl, Names(text, [tile])
    first = fresh("start", "begin", f"first_{span.variable}")
    mask = fresh("in_rows", f"{span.variable}_mask", "row_in_bounds")
    loop = Loop(span.node, span.variable, "0", span.stop, {r.name: r.kind for r in results})
    body = span.node.body.visit(_ToTiles(text, flow, loop, tile, mask))
    assert isinstance(body, cst.IndentedBlock)
    stop = span.stop if span.stop.isidentifier() or "(" in span.stop else f"({span.stop})"
    lines = [
        line_of(f"{span.variable} = {first} + {tl}.arange(0, {tile})[:, None]"),
        line_of(f"{mask} = {span.variable} < {stop}"),
    ]
    arguments = ", ".join(["0", span.stop, tile, *span.options])
    new = span.node.with_changes(
        target=cst.Name(first),
        iter=cst.parse_expression(f"{span.function}({arguments})"),
        body=body.with_changes(body=[*lines, *body.body]),
    )
    starts = {id(_start(text, span, result)) for result in results}
    out: list[cst.CSTNode] = []
    for place, statement in enumerate(text.function.body.body):
        if place == span.place:
            out += [new, *(line_of(f"{r.name} = {tl}.{r.kind}({r.name}, axis=0)") for r in results)]
        elif isinstance(statement, cst.SimpleStatementLine) and id(statement.body[0]) in starts:
            out.append(_wider(statement, tl, tile))
        else:
            out.append(statement)
    return text.with_body(out)


def _wider(statement: cst.SimpleStatementLine, tl: str, tile: str) -> cst.SimpleStatementLine:
    """Return the start of a result with one more axis, of rows."""
    small = cst.ensure_type(statement.body[0], cst.Assign)
    call = cst.ensure_type(small.value, cst.Call)
    shape = argument(call, name_of(call, tl) or "", "shape")
    assert shape is not None
    inner = ", ".join(code(e) for e in elements(shape.value) or ())
    opening, closing = ("[", "]") if isinstance(shape.value, cst.List) else ("(", ")")
    wide = with_value(call, shape, "shape", cst.parse_expression(f"{opening}{tile}, {inner}{closing}"))
    return statement.with_changes(body=[small.with_changes(value=wide)])


class _ToTiles(ToBlocks):
    """The body of the loop for a tile; what is reduced along a row stays a column of rows."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Mask loads of rows, and keep the axis of rows in reductions."""
        name = name_of(original_node, self.tl)
        if name in REDUCTIONS and self.varies(original_node.args[0].value):
            updated = with_value(updated_node, argument(updated_node, name, "axis"), "axis", cst.Integer("1"))
            return with_value(updated, None, "keep_dims", cst.Name("True"))
        return super().leave_Call(original_node, updated_node)
