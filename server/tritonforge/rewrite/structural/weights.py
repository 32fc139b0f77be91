"""What a running softmax adds up: weights `exp(x - m)` and what is linear in them, which a larger maximum scales.

Anything else, `exp(x)` say, depends on the maximum so far, which parts of a loop do not know of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from tritonforge.rewrite.structural.calls import name_of, value_of
from tritonforge.rewrite.structural.kernel_text import code, line_of
from tritonforge.rewrite.structural.loops import Spelled, bare, names_in, reads, sets, step_of

_SHAPING = frozenset({"sum", "to", "cast", "trans", "reshape", "view", "permute", "broadcast_to", "expand_dims"})


class Weights:
    """The weights of a running softmax: `function(x - new)`, where `new` follows `highest`."""

    def __init__(self, tl: str, highest: str, new: str, function: str) -> None:
        self.tl, self.new, self.function = tl, new, function
        self.maxima = {highest, new}

    def are_added(self, lines: Sequence[cst.BaseSmallStatement], found: Mapping[str, object]) -> bool:
        """Tell whether the statements of a round add nothing else to the variables in `found`."""
        spelled = Spelled(self.tl)
        for line in lines:
            for name in sets(line) & found.keys() - self.maxima:
                term = self._added(line, name)
                if term is not None and not self._are_in(spelled.expression(term)):
                    return False
            spelled.take(line if code(getattr(line, "target", line)) in found else _written_out(line))
            spelled.known.pop(self.new, None)
        return True

    def _added(self, line: cst.BaseSmallStatement, name: str) -> cst.BaseExpression | None:
        """Return what a statement adds to a variable; None where it only scales it."""
        step = step_of(line, self.tl)
        if step is not None:
            return step[2]
        value = line.value if isinstance(line, cst.Assign) else None
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
            return None
        return value.right if reads(value.left, name) else value.left

    def _are_in(self, node: cst.BaseExpression) -> bool:
        """Tell whether a value is linear in the weights."""
        if isinstance(node, cst.Subscript):
            return self._are_in(node.value)
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Minus) and self._are_in(node.expression)
        if isinstance(node, cst.BinaryOperation):
            left, right = node.left, node.right
            if isinstance(node.operator, cst.Add | cst.Subtract):
                return self._are_in(left) and self._are_in(right)
            if isinstance(node.operator, cst.Divide):
                return self._are_in(left) and self._is_free(right)
            return isinstance(node.operator, cst.Multiply) and self._is_one(left, right)
        if not isinstance(node, cst.Call):
            return False
        called = name_of(node, self.tl)
        if called is None and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPING:
            return self._are_in(node.func.value)
        values = [a.value for a in node.args]
        if called == self.function and isinstance(values[0], cst.BinaryOperation):
            inner = values[0]
            taken = inner.right.value if isinstance(inner.right, cst.Subscript) else inner.right
            less = isinstance(inner.operator, cst.Subtract) and code(taken) == self.new
            return less and self._is_free(inner.left)
        if called == "dot":
            first, second = value_of(node, "dot", "input"), value_of(node, "dot", "other")
            return first is not None and second is not None and self._is_one(first, second)
        if called == "where" and len(values) == 3:
            zero = bare(code(values[2])) in {"0", "0.0"}
            return zero and self._is_free(values[0]) and self._are_in(values[1])
        return called in _SHAPING and self._are_in(values[0])

    def _is_one(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Tell whether one of two factors is linear in the weights, and the other has nothing of them."""
        return any(self._are_in(a) and self._is_free(b) for a, b in ((left, right), (right, left)))

    def _is_free(self, node: cst.BaseExpression) -> bool:
        return not names_in(node) & self.maxima


def _written_out(line: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    """Return `x *= y` as `x = x * (y)`; any other statement as it is."""
    if not isinstance(line, cst.AugAssign):
        return line
    name, operator = code(line.target), code(line.operator).strip().removesuffix("=")
    return line_of(f"{name} = {name} {operator} ({code(line.value)})").body[0]
