"""One division for each row instead of one for each element: `x / d` as `x * (1.0 / d)`, and `rsqrt` for `1 / sqrt`.

A division of single precision is a reciprocal, a multiplication and corrections; a multiplication is one instruction.
The result may differ in its last bit, which the gate judges.

Preconditions: the divisor has fewer elements than what is divided (a number for a block, a value for each row), and is
no literal; the quotient is no integer's (`//` stays); no argument is in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.domain.launch import Tensor
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import grouped, name_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced


class Reciprocal:
    """Multiplications by reciprocals."""

    name = "reciprocal"
    treats = frozenset({"TF204"})
    classes: frozenset[BottleneckClass] = frozenset({"special-function", "fp32-compute"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        flow = flow_of(text.function, text.kernel, text.tl)
        made: list[tuple[cst.CSTNode, Replacement]] = []
        for node in nodes_of(text.function):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
                new = self.multiplied(text, flow, node)
                if new is not None and not any(node in nodes_of(old) for old, _ in made):
                    made.append((node, new.with_changes(lpar=node.lpar, rpar=node.rpar)))
        if not made:
            raise Absent("nothing is divided by fewer values than it has")
        if any(isinstance(v, Tensor) and v.dtype == "float64" for _, v in text.launch.problem.arguments):
            raise Refused("the reciprocal of a whole number is one in single precision, and the kernel is in double")
        yield Change("multiplications by the reciprocal", text.edits(replaced(text.function, made)))

    def multiplied(self, text: KernelText, flow: Flow, node: cst.BinaryOperation) -> cst.BaseExpression | None:
        """Return a quotient as a product; None where there is nothing to gain."""
        divisor = node.right
        root = divisor.args[0].value if isinstance(divisor, cst.Call) and name_of(divisor, text.tl) == "sqrt" else None
        if root is not None and isinstance(node.left, cst.Integer | cst.Float) and node.left.evaluated_value == 1:
            return _call(f"{text.tl}.rsqrt", root)
        whole, part = flow.of(node).shape, flow.of(divisor).shape
        if not whole or part is None or isinstance(divisor, cst.Integer | cst.Float | cst.UnaryOperation):
            return None
        parts = ("1",) * (len(whole) - len(part)) + part
        if not any(a != "1" and b == "1" for a, b in zip(whole, parts, strict=True)):
            return None
        if root is not None:
            inverse: cst.BaseExpression = _call(f"{text.tl}.rsqrt", root)
        else:
            inverse = cst.parse_expression(f"(1.0 / {code(grouped(divisor))})")
        return cst.BinaryOperation(grouped(node.left) if _binds_less(node.left) else node.left, _TIMES, inverse)


_TIMES = cst.Multiply(cst.SimpleWhitespace(" "), cst.SimpleWhitespace(" "))


def _call(function: str, value: cst.BaseExpression) -> cst.Call:
    called = cst.parse_expression(f"{function}({code(value)})")
    assert isinstance(called, cst.Call)
    return called


def _binds_less(node: cst.BaseExpression) -> bool:
    """Tell whether an operand of a product needs brackets: what was divided bound as closely."""
    return isinstance(node, cst.IfExp | cst.Lambda | cst.Comparison | cst.BooleanOperation)
