"""A sum over products of two tiles as a `tl.dot`: tensor cores in place of a block of three axes.

`tl.sum(a[:, :, None] * b[None, :, :], axis=1)` makes all M·K·N products before it sums them. `tl.dot(a, b)` computes
the same with tensor cores, where operands have 16 bits, and never holds the products.

Preconditions: both factors are tiles of two axes, spread over three by `None`, and the axis that both have is summed;
no extent is below 16, the least of a dot. `input_precision="ieee"` keeps fp32 as exact as it was, and a cast to fp32 in
front of the product stays: what the operands are multiplied in is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import argument, integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced

_LEAST = 16


class SumOfProducts:
    """Dots in place of products that are summed."""

    name = "sum-of-products"
    treats = frozenset({"TF201"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"no-tensor-core", "fp32-compute", "register-spill", "low-occupancy", "shared-memory", "latency"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield all of them together."""
        flow = flow_of(text.function, text.kernel, text.tl)
        made: list[tuple[cst.CSTNode, Replacement]] = []
        for node in nodes_of(text.function):
            if isinstance(node, cst.Call) and name_of(node, text.tl) == "sum":
                made += _dot(text, flow, node)
        if not made:
            raise Absent("no products of two tiles are summed")
        yield Change("tl.dot in place of products that are summed", text.edits(replaced(text.function, made)))


def _dot(text: KernelText, flow: Flow, call: cst.Call) -> list[tuple[cst.CSTNode, Replacement]]:
    product = call.args[0].value
    axis = integer(value_of(call, "sum", "axis"))
    if not isinstance(product, cst.BinaryOperation) or not isinstance(product.operator, cst.Multiply):
        return []
    sides = [(s.value, _spread(s)) for s in (product.left, product.right) if isinstance(s, cst.Subscript)]
    forms = [form for _, form in sides]
    if len(sides) != 2 or axis is None or argument(call, "sum", "keep_dims") is not None:
        return []
    (a, _), (b, _) = sides
    # Rows of the result come from the first factor or the second: a sum of products does not mind.
    if forms in (["::N", "N::"], [":N:", "N::"]):
        first, second, form = a, b, forms[0]
    elif forms in (["N::", "::N"], ["N::", ":N:"]):
        first, second, form = b, a, forms[1]
    else:
        return []
    if axis != (1 if form == "::N" else 2):
        return []
    shapes = [flow.of(first).shape, flow.of(second).shape]
    for shape in shapes:
        if shape is None or len(shape) != 2:
            return []
        for extent in shape:
            size = text.size(extent)
            if size is None or size < _LEAST:
                raise Refused(f"{extent} is below {_LEAST}, the least extent of a dot")
    right = code(second) if form == "::N" else f"{text.tl}.trans({code(second)})"
    dot = cst.parse_expression(f'{text.tl}.dot({code(first)}, {right}, input_precision="ieee")')
    return [(call, dot)]


def _spread(node: cst.Subscript) -> str:
    """Return `::N` for `x[:, :, None]`."""
    marks = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index) and code(part.value) == "None":
            marks.append("N")
        elif isinstance(part, cst.Slice) and part.lower is part.upper is None:
            marks.append(":")
        else:
            return ""
    return "".join(marks)
