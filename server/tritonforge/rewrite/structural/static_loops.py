"""`tl.static_range` for a short loop whose bounds are known when the kernel is compiled.

The compiler then sees every round by itself: addresses fold, branches on the loop's variable go, and rounds overlap.
Compiling takes longer with every round, so only short loops are unrolled.

Preconditions: `range` or `tl.range` without options over literals and constexprs; 2 to 8 rounds in the recorded launch;
no loop in it; nothing leaves it early; its variable is set nowhere else and has no method called on it, since it
becomes a constant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of, replaced

MOST_ROUNDS = 8


class StaticLoops:
    """Short loops unrolled when the kernel is compiled."""

    name = "static-loops"
    treats = frozenset({"TF208", "TF207"})
    classes: frozenset[BottleneckClass] = frozenset({"latency", "scalar-loop", "fp32-compute"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        found: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        reason = ""
        for node in nodes_of(text.function):
            if not isinstance(node, cst.For) or not isinstance(node.iter, cst.Call):
                continue
            rounds = self.rounds(text, node.iter)
            if rounds is None or rounds < 2:
                continue
            reason = reason or self.obstacle(node, rounds)
            if not self.obstacle(node, rounds):
                static = cst.parse_expression(f"{text.tl}.static_range")
                found.append((node.iter.func, static))
        if not found:
            raise Refused(reason) if reason else Absent("no loop has bounds that are known when it is compiled")
        yield Change("short loops unrolled by tl.static_range", text.edits(replaced(text.function, found)))

    def rounds(self, text: KernelText, call: cst.Call) -> int | None:
        """Return how many rounds a loop has in the recorded launch, where the compiler knows its bounds."""
        if code(call.func) not in {"range", f"{text.tl}.range"} or any(a.keyword or a.star for a in call.args):
            return None
        values = [self.value(text, code(a.value)) for a in call.args]
        if not 1 <= len(values) <= 3 or any(v is None for v in values):
            return None
        known = [v for v in values if v is not None]
        return len(range(*known)) if len(known) < 3 or known[2] else None

    def value(self, text: KernelText, words: str) -> int | None:
        """Return the value of an expression of literals and constexprs; None for any other."""
        try:
            return self.folded(text, ast.parse(words, mode="eval").body)
        except (SyntaxError, ZeroDivisionError):
            return None

    def folded(self, text: KernelText, node: ast.expr) -> int | None:
        """Return the value of a syntax tree, as `value` does."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.Name):
            parameter = text.kernel.parameter(node.id)
            return text.value(node.id) if parameter is not None and parameter.constexpr else None
        if isinstance(node, ast.BinOp):
            left, right = self.folded(text, node.left), self.folded(text, node.right)
            if left is None or right is None:
                return None
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.FloorDiv():
                    return left // right
        return None

    def obstacle(self, loop: cst.For, rounds: int) -> str:
        """Return why a loop stays, or an empty text."""
        if rounds > MOST_ROUNDS:
            return f"a loop has {rounds} rounds, and each takes time to compile"
        if not isinstance(loop.target, cst.Name):
            return "a loop sets more than one variable"
        variable = loop.target.value
        for node in nodes_of(loop.body):
            if isinstance(node, cst.For | cst.While):
                return "another loop stands in it"
            if isinstance(node, cst.Break | cst.Continue | cst.Return):
                return "a loop is left early"
            if isinstance(node, cst.Attribute) and code(node.value) == variable:
                return f"{code(node)} asks for more than the number that {variable} becomes"
            if isinstance(node, cst.AugAssign | cst.AssignTarget) and code(node.target) == variable:
                return f"{variable} is set in its loop"
        return ""
