"""What expressions do to values: names, subscripts, arithmetic, comparisons. Calls are in `flow_calls`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, ClassVar

from tritonforge.analysis.facts import OperationFact
from tritonforge.analysis.flow_calls import CallFlow
from tritonforge.analysis.values import SCALAR, STATIC, Value, elementwise, merge

_SLOW_OPERATORS: dict[type[ast.operator], str] = {ast.Div: "/", ast.Mod: "%", ast.FloorDiv: "//", ast.Pow: "**"}


class ExpressionFlow(CallFlow):
    """The expressions of a flow; its statements are in `flow`."""

    def test(self, node: ast.expr) -> Value:
        """Return the value of a condition; a constexpr that is itself the condition is a flag."""
        tested = self.eval(node)
        stack = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, ast.BoolOp):
                stack.extend(part.values)
            elif isinstance(part, ast.UnaryOp):
                stack.append(part.operand)
            elif isinstance(part, ast.Name):
                value = self.env.get(part.id)
                if value is not None and value.bare is not None:
                    self.facts.flag_uses.add(value.bare)
                    self.facts.uses[value.bare].add("test")
        return tested

    def eval(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        visit = self._EXPRESSIONS.get(type(node))
        if visit is None:
            return elementwise([self.eval(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)])
        return visit(self, node)

    def _constant(self, _: ast.Constant) -> Value:
        return STATIC

    def _name(self, node: ast.Name) -> Value:
        value = self.env.get(node.id)
        if value is not None:
            return value
        found = self.scope.lookup(node.id)
        if found is not None and found[1][0].kind != "function":
            binding = found[1][-1]
            outside = id(found[0].node) not in self.jits
            if outside and (binding.kind in ("assign", "other") or binding.kind == "import"):
                path = self.path(node)
                if path is None or not path.startswith("triton"):
                    self.facts.constants[node.id] = None
        return STATIC

    def _attribute(self, node: ast.Attribute) -> Value:
        outside = isinstance(node.value, ast.Name) and node.value.id not in self.env
        if outside and self.path(node) is not None:
            return STATIC
        value = self.eval(node.value)
        if node.attr == "T":
            return value._replace(bare=None)
        if node.attr == "value" and value.bare in self.constexprs:
            return value
        return STATIC

    def _tuple(self, node: ast.Tuple | ast.List) -> Value:
        items = tuple(self.eval(e) for e in node.elts)
        return elementwise(items)._replace(items=items)

    def _subscript(self, node: ast.Subscript) -> Value:
        value = self.eval(node.value)
        index = node.slice
        if value.items is not None:
            at = index.value if isinstance(index, ast.Constant) else None
            if isinstance(at, int) and -len(value.items) <= at < len(value.items):
                return value.items[at]
            self.eval(index)
            return elementwise(value.items)._replace(rank=None)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if all(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value is None) for p in parts):
            rank = len(parts) if value.rank != 0 or any(isinstance(p, ast.Constant) for p in parts) else 0
            return value._replace(rank=rank, bare=None)
        self.eval(index)
        return value._replace(bare=None, rank=None if value.rank else value.rank)

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(node, self.eval(node.left), self.eval(node.right))

    def binary(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        """Return the value of `left op right`, the operation of `node`."""
        facts = self.facts
        result = elementwise((left, right))
        kind = type(node.op)
        if kind is ast.Add or kind is ast.Sub:
            for side in (left, right):
                if side.bare:
                    facts.uses[side.bare].add("add")
            bases = left.bases + right.bases if kind is ast.Add else left.bases
            return result._replace(bases=tuple(dict.fromkeys(bases)))
        if kind is ast.Mult:
            factors = result.factors
            for side, other in ((left, right), (right, left)):
                if side.bare:
                    factors |= {side.bare}
                    facts.uses[side.bare].add("multiply")
                    if other.rank and side.bare in self.constexprs:
                        facts.size_uses.add(side.bare)  # a constexpr that multiplies offsets is a layout, not a tile
                if side.static and side.sizes and other.axes and other.rank == 0 and not _rounds_down(node):
                    self._note_program_multiple(other, side)
            return result._replace(factors=factors)
        for side in (left, right):
            if side.bare:
                facts.uses[side.bare].add("other")
        if kind is ast.Div and right.bare in self.constexprs and not left.static:
            assert right.bare is not None
            facts.size_uses.add(right.bare)  # dividing data by it makes its value part of the result
        if kind is ast.FloorDiv and right.sizes:
            result = result._replace(per=result.per | right.sizes)
        symbol = _SLOW_OPERATORS.get(kind)
        # Integer division of one scalar outside loops costs nothing worth telling.
        costly = kind in (ast.Div, ast.Pow) or result.rank != 0 or bool(self.loop_stack)
        if symbol is not None and not result.static and costly:
            operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            texts = tuple(self.text.segment(operand) for operand in operands)
            facts.math.setdefault(id(node), OperationFact(node, symbol, texts, (), self.loop_stack))
        return result

    def _note_program_multiple(self, program: Value, size: Value) -> None:
        self.facts.program_multiples |= size.sizes
        for axis in sorted(program.axes):
            at = self.facts.axes.setdefault(axis, {})
            for name in sorted(size.sizes, key=self.order):
                at[name] = None

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        return value._replace(bare=None, bases=())

    def _boolop(self, node: ast.BoolOp) -> Value:
        return elementwise([self.eval(v) for v in node.values])

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.eval(node.left), *(self.eval(c) for c in node.comparators)]
        operands = [node.left, *node.comparators]
        for i, value in enumerate(values):
            if not value.bare:
                continue
            self.facts.uses[value.bare].add("compare")
            others = [(v, operands[j]) for j, v in enumerate(values) if j != i]
            if value.bare in self.constexprs:
                if any(v.rank or v.axes for v, _ in others):
                    self.facts.size_uses.add(value.bare)
                if any(isinstance(o, ast.Constant) and not isinstance(o.value, (int, float)) for _, o in others) or any(
                    isinstance(o, ast.Constant) and isinstance(o.value, bool) for _, o in others
                ):
                    self.facts.flag_uses.add(value.bare)
        return elementwise(values)._replace(per=frozenset())

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.test(node.test)
        return merge(self.eval(node.body), self.eval(node.orelse))

    def _starred(self, node: ast.Starred) -> Value:
        return self.eval(node.value)

    def _ignored(self, _: ast.expr) -> Value:
        return SCALAR

    _EXPRESSIONS: ClassVar[dict[type, Callable[[Any, Any], Value]]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Tuple: _tuple,
        ast.List: _tuple,
        ast.Subscript: _subscript,
        ast.BinOp: _binop,
        ast.UnaryOp: _unary,
        ast.BoolOp: _boolop,
        ast.Compare: _compare,
        ast.IfExp: _ifexp,
        ast.Call: CallFlow.call,
        ast.Starred: _starred,
        ast.Lambda: _ignored,
        ast.ListComp: _ignored,
        ast.GeneratorExp: _ignored,
        ast.DictComp: _ignored,
        ast.SetComp: _ignored,
        ast.JoinedStr: _ignored,
    }


def _rounds_down(node: ast.BinOp | ast.AugAssign) -> bool:
    """Tell whether a product is `x // BLOCK * BLOCK`, which is no block's number times its size."""
    match node:
        case ast.BinOp(left=ast.BinOp(op=ast.FloorDiv(), right=size), right=factor):
            return ast.dump(size) == ast.dump(factor)
        case _:
            return False
