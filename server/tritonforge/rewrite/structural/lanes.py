"""A kernel of one element per program with a block of them per program: what depends on it gets an axis in front.

`head = tl.program_id(1)` as `head = first + tl.arange(0, LANES)` makes a number that depends on it a block `[LANES]`
and a block `[D]` one of `[LANES, D]`. Where both kinds meet, they are spread as their author would: `head[:, None] * D
+ d[None, :]`. A sum over products of a row and a tile, `tl.sum(q[None, :] * k, axis=1)`, becomes a `tl.dot`, so that
one tile in registers serves all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import (
    ELEMENTWISE,
    REDUCTIONS,
    argument,
    elements,
    grouped,
    integer,
    name_of,
    value_of,
    with_mask,
    with_value,
)
from tritonforge.rewrite.structural.flow import Flow
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of

_COLUMN, _ROW = "[:, None]", "[None, :]"
_INFINITE = {f"{sign}float({q}{word}{q})" for sign in ("", "-") for q in "'\"" for word in ("inf", "-inf")}


@dataclass
class Lanes:
    """What becomes of a kernel's statements.

    `axis` is the program axis that stands for the lanes in `flow`; `lanes` the constexpr that says how many there are,
    `mask` the variable that says which are real. `statements` are those that others take the place of.
    """

    text: KernelText
    flow: Flow
    axis: int
    lanes: str
    mask: str
    statements: Mapping[int, list[cst.BaseStatement]]
    initials: frozenset[int] = frozenset()

    def depends(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression depends on the lane."""
        return self.axis in self.flow.of(node).programs

    def rank(self, node: cst.CSTNode) -> int:
        """Return how many axes an expression has in the kernel as it was.

        Raises:
            Refused: that cannot be told.
        """
        shape = self.flow.of(node).shape
        if shape is None:
            raise Refused(f"the shape of {_short(node)} cannot be told")
        return len(shape)

    # Statements.

    def block(self, body: cst.BaseSuite) -> cst.BaseSuite:
        """Return a body with lanes."""
        out: list[cst.BaseStatement] = []
        for statement in body.body:
            assert isinstance(statement, cst.BaseStatement)
            out += self.statement(statement)
        return body.with_changes(body=out)

    def statement(self, node: cst.BaseStatement) -> list[cst.BaseStatement]:
        """Return what becomes of a statement."""
        match node:
            case cst.SimpleStatementLine(body=parts):
                if id(node) in self.statements:
                    return self.statements[id(node)]
                return [node.with_changes(body=[self.small(part) for part in parts])]
            case cst.For(iter=bounds, body=body):
                self.refuse_if(bounds, "a loop's bounds depend on the lane")
                return [node.with_changes(body=self.block(body))]
            case cst.If(test=test, body=body, orelse=orelse):
                self.refuse_if(test, f"the kernel branches on {_short(test)}")
                other = orelse
                if isinstance(orelse, cst.Else):
                    other = orelse.with_changes(body=self.block(orelse.body))
                elif orelse is not None:
                    (other,) = self.statement(orelse)  # type: ignore[assignment]
                return [node.with_changes(body=self.block(body), orelse=other)]
            case _:
                raise Refused(f"{_short(node)} is not looked into")

    def refuse_if(self, node: cst.BaseExpression, reason: str) -> None:
        """Refuse for a reason where an expression depends on the lane."""
        parts = [node, *(a.value for a in node.args)] if isinstance(node, cst.Call) else [node]
        if any(self.depends(p) for p in parts):
            raise Refused(reason)

    def small(self, node: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
        """Return what becomes of an assignment or a store."""
        match node:
            case cst.Assign(targets=targets, value=value):
                if id(node) in self.initials:
                    return node.with_changes(value=self.widened(value))
                if not self.depends(value):
                    return node
                if len(targets) != 1 or not isinstance(targets[0].target, cst.Name):
                    raise Refused(f"{_short(node)} gives several values at once")
                return node.with_changes(value=self.natural(value))
            case cst.AugAssign(target=cst.Name(), value=value):
                if not self.depends(node.target) and not self.depends(value):
                    return node
                rank = self.rank(node.target)
                if self.rank(value) > rank or (rank and not self.depends(node.target)):
                    raise Refused(f"{_short(node)} gives a variable another shape")
                return node.with_changes(value=self.spread(value, rank))
            case cst.Expr(value=cst.Call() as call):
                if not self.depends(call) and not any(self.depends(a.value) for a in call.args):
                    return node
                return node.with_changes(value=self.stored(call))
            case cst.Expr() | cst.Pass():
                return node
            case _:
                raise Refused(f"{_short(node)} is not looked into")

    def stored(self, call: cst.Call) -> cst.Call:
        """Return a store of values of all lanes."""
        name = name_of(call, self.text.tl)
        value = value_of(call, "store", "value")
        if name != "store" or value is None:
            raise Refused(f"values of a lane are handed to {code(call.func)}()")
        pointer = call.args[0].value
        if not self.depends(pointer):
            raise Refused("store puts values of all lanes in one place")
        rank = self.rank(pointer)
        given = argument(call, "store", "value")
        new = with_value(call, given, "value", self.spread(value, rank))
        return self.guarded(call, new, "store", rank)

    def guarded(self, was: cst.Call, new: cst.Call, name: str, rank: int) -> cst.Call:
        """Return a load or store with lanes: where it goes, and its masks."""
        pointer, mask = new.args[0], argument(was, name, "mask")
        new = new.with_changes(args=[pointer.with_changes(value=self.natural(pointer.value)), *new.args[1:]])
        if mask is not None and code(mask.value) != "None":
            own = argument(new, name, "mask")
            new = with_value(new, own, "mask", self.spread(mask.value, rank))
        return with_mask(new, name, self.mask + (_COLUMN if rank else ""))

    def widened(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """Return what a variable begins as, which is the same for all lanes, once for each lane."""
        tl, name = self.text.tl, name_of(value, self.text.tl)
        if isinstance(value, cst.Call) and name in {"zeros", "full"}:
            shape = argument(value, name, "shape")
            parts = elements(shape.value) if shape is not None else None
            if shape is not None and parts is not None and len(parts) == 1:
                opening, closing = ("[", "]") if isinstance(shape.value, cst.List) else ("(", ")")
                wide = cst.parse_expression(f"{opening}{self.lanes}, {code(parts[0])}{closing}")
                return with_value(value, shape, "shape", wide)
        plain = isinstance(value, cst.Float) or code(value).replace(" ", "") in _INFINITE
        negative = isinstance(value, cst.UnaryOperation) and isinstance(value.expression, cst.Float)
        if not plain and not negative:
            raise Refused(f"the first value {_short(value)} cannot be given to every lane")
        if code(value) == "0.0":
            return cst.parse_expression(f"{tl}.zeros(({self.lanes},), dtype={tl}.float32)")
        return cst.parse_expression(f"{tl}.full(({self.lanes},), {code(value)}, dtype={tl}.float32)")

    # Expressions.

    def spread(self, node: cst.BaseExpression, rank: int) -> cst.BaseExpression:
        """Return an expression as it meets one that depends on the lane and had `rank` axes."""
        own = self.rank(node)
        if self.depends(node):
            return self.natural(node) if own == rank else self.indexed(node, _COLUMN)
        return node if own == 0 else self.indexed(node, _ROW)

    def natural(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression that depends on the lane with the axis of lanes in front."""
        if not self.depends(node):
            return node
        match node:
            case cst.Name():
                return node
            case cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                return self.over(node, lambda part: self.spread(part, self.rank(node)))
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="to"))) if self.depends(owner):
                return node.with_changes(func=node.func.with_changes(value=self.natural(owner)))
            case cst.Call():
                return self.call(node)
            case _:
                raise Refused(f"{_short(node)} is not looked into")

    def over(
        self, node: cst.BaseExpression, new: Callable[[cst.BaseExpression], cst.BaseExpression]
    ) -> cst.BaseExpression:
        """Return an operation with other operands."""
        if isinstance(node, cst.BinaryOperation):
            return node.with_changes(left=new(node.left), right=new(node.right))
        if isinstance(node, cst.UnaryOperation):
            return node.with_changes(expression=new(node.expression))
        assert isinstance(node, cst.Comparison)
        if len(node.comparisons) > 1:
            raise Refused(f"{_short(node)} compares in a chain")
        (one,) = node.comparisons
        return node.with_changes(left=new(node.left), comparisons=[one.with_changes(comparator=new(one.comparator))])

    def indexed(self, node: cst.BaseExpression, index: str) -> cst.BaseExpression:
        """Return an expression with `index` behind it, or behind the variables in it that are blocks."""
        if isinstance(node, cst.BinaryOperation | cst.Comparison | cst.UnaryOperation):
            return self.over(node, lambda part: self.indexed(part, index) if self.is_block(part) else part)
        new = self.natural(node)
        words = code(new if isinstance(new, cst.Name | cst.Call | cst.Subscript) else grouped(new))
        return cst.parse_expression(f"{words}{index}")

    def is_block(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression is one of several elements once there are lanes."""
        return self.depends(node) or self.rank(node) > 0

    def call(self, node: cst.Call) -> cst.BaseExpression:
        """Return a load, a reduction or an elementwise function of values of a lane."""
        name = name_of(node, self.text.tl)
        if name == "load":
            rank = self.rank(node.args[0].value)
            other = value_of(node, name, "other")
            if other is not None and (self.depends(other) or self.rank(other)):
                raise Refused(f"what stands in for masked elements, {_short(other)}, is no single value")
            new = self.guarded(node, node, name, rank)
            return new if other is not None else with_value(new, None, "other", cst.Float("0.0"))
        if name in REDUCTIONS:
            return self.reduced(node, name)
        if name in ELEMENTWISE:
            rank = self.rank(node)
            return node.with_changes(
                args=[
                    a.with_changes(value=self.spread(a.value, rank)) if self.is_block(a.value) else a for a in node.args
                ]
            )
        raise Refused(f"values of a lane are handed to {code(node.func)}()")

    def reduced(self, node: cst.Call, name: str) -> cst.BaseExpression:
        """Return a reduction of rows, or the dot in place of a sum over products of a row and a tile."""
        if argument(node, name, "keep_dims") or argument(node, name, "return_indices"):
            raise Refused(f"{_short(node)} keeps its dimensions or returns indices")
        inner = node.args[0].value
        if self.rank(inner) == 1:
            new = node.with_changes(args=[node.args[0].with_changes(value=self.natural(inner)), *node.args[1:]])
            return with_value(new, argument(new, name, "axis"), "axis", cst.Integer("1"))
        if name != "sum" or not isinstance(inner, cst.BinaryOperation) or not isinstance(inner.operator, cst.Multiply):
            raise Refused(f"{_short(node)} is no sum over products of a row and a tile")
        sides = (inner.left, inner.right)
        row, tile = sides if self.depends(sides[0]) else sides[::-1]
        # The row lies along the axis that is summed: `q[None, :] * k` with axis 1, `p[:, None] * v` with axis 0.
        axes = {_ROW: 1, _COLUMN: 0}
        index = code(row)[len(code(row.value)) :] if isinstance(row, cst.Subscript) else ""
        fits = axes.get(index) == integer(value_of(node, name, "axis"))
        names = isinstance(row, cst.Subscript) and isinstance(row.value, cst.Name) and isinstance(tile, cst.Name)
        if not fits or not names or self.depends(tile) or self.rank(tile) != 2:
            raise Refused(f"{_short(node)} is no sum over products of a row and a tile")
        assert isinstance(row, cst.Subscript)
        return self.dot(code(row.value), code(tile), transposed=index == _ROW)

    def dot(self, row: str, tile: str, *, transposed: bool) -> cst.BaseExpression:
        """Return the product of a block of rows and a tile, which is as exact as sums of products in fp32."""
        tl = self.text.tl
        rows = row if self.is_single(row, computed=True) else f"{row}.to({tl}.float32)"
        other = tile if self.is_single(tile, computed=False) else f"{tile}.to({tl}.float32)"
        other = f"{tl}.trans({other})" if transposed else other
        return cst.parse_expression(f'{tl}.dot({rows}, {other}, input_precision="ieee")')

    def is_single(self, name: str, *, computed: bool) -> bool:
        """Tell whether a variable is of fp32: cast to it, or, as `computed` says, anything but a load."""
        values = [
            n.value
            for n in nodes_of(self.text.function)
            if isinstance(n, cst.Assign) and code(n.targets[0].target) == name
        ]
        loads = any(name_of(v, self.text.tl) == "load" for v in values)
        cast = all(f".to({self.text.tl}.float32)" in code(v) for v in values)
        return bool(values) and (cast or (computed and not loads))


def _short(node: cst.CSTNode) -> str:
    words = " ".join(code(node).split())
    return words if len(words) <= 50 else f"{words[:47]}…"
