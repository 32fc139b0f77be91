"""Normalise at the end: what a loop adds up is divided once behind it, and not in every round.

`acc += x / n` becomes `acc += x` with `acc = acc / n` behind the loop; `tl.dot(p / l[:, None], v, acc)` multiplies `p`
and divides the rows of the sum. The order of roundings changes, and nothing else.

Preconditions: the divisor does not change in the loop; the sum begins as zeros, is added to in one place and read
nowhere else in the loop; a quotient that is a dot's operand is divided along the axis that the dot keeps, and what is
cast to float16 behind the division was an exponential, which stays in range without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import ELEMENTWISE, grouped, integer, name_of, value_of
from tritonforge.rewrite.structural.flow import Flow, flow_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced
from tritonforge.rewrite.structural.loops import names_in, sets


class DeferredDivision:
    """Sums divided behind their loop."""

    name = "deferred-division"
    treats = frozenset({"TF204", "TF205"})
    classes: frozenset[BottleneckClass] = frozenset({"special-function", "fp32-compute", "tensor-core"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        flow = flow_of(text.function, text.kernel, text.tl)
        made: list[tuple[cst.CSTNode, Replacement]] = []
        reasons: list[str] = []
        for loop in nodes_of(text.function):
            if isinstance(loop, cst.For) and not any(loop in nodes_of(old) for old, _ in made):
                sums = list(_sums(text, flow, loop, reasons))
                if sums:
                    made.append((loop, _divided(loop, sums)))
        if not made:
            raise Refused(reasons[0]) if reasons else Absent("no loop adds up quotients")
        yield Change("divided once behind the loop", text.edits(replaced(text.function, made)))


@dataclass(frozen=True)
class _Sum:
    """One sum: its name, the quotient in what is added, and what the sum is behind the loop."""

    name: str
    quotient: cst.BinaryOperation
    result: str


def _sums(text: KernelText, flow: Flow, loop: cst.For, reasons: list[str]) -> Iterator[_Sum]:
    inside = {n for s in loop.body.body for n in sets(s)} | {code(loop.target)}
    for statement in loop.body.body:
        added = _added(text, statement)
        if added is None:
            continue
        name, value = added
        found = _quotient(text, flow, value)
        if found is None:
            continue
        quotient, divisor = found
        reads = [n.value for n in (quotient.right, *nodes_of(quotient.right)) if isinstance(n, cst.Name)]
        if set(reads) & inside or not _is_the_same(text, quotient.right):
            continue
        others = [
            n
            for s in loop.body.body
            if s is not statement
            for n in nodes_of(s)
            if isinstance(n, cst.Name) and n.value == name
        ]
        if others or _counted(statement, name) > 2:
            reasons.append(f"{name} is read while it is added up")
        elif not _begins_as_zeros(text, loop, name):
            reasons.append(f"{name} does not begin as zeros in front of the loop")
        else:
            yield _Sum(name, quotient, _result(text, loop, name, divisor))


def _added(text: KernelText, statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """Return the sum and what is added in `s += x`, `s = s + x` and `s = tl.dot(a, b, s)`."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    small = statement.body[0]
    if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        return (small.target.value, small.value) if isinstance(small.target, cst.Name) else None
    if not isinstance(small, cst.Assign) or not isinstance(small.targets[0].target, cst.Name):
        return None
    name, value = small.targets[0].target.value, small.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add) and code(value.left) == name:
        return name, value.right
    if isinstance(value, cst.Call) and name_of(value, text.tl) == "dot":
        acc = value_of(value, "dot", "acc")
        return (name, value) if acc is not None and code(acc) == name else None
    return None


def _quotient(text: KernelText, flow: Flow, value: cst.BaseExpression) -> tuple[cst.BinaryOperation, str] | None:
    """Return the quotient that `value` is, with its divisor as it applies to the sum."""
    plain, cast = _uncast(value)
    if isinstance(plain, cst.BinaryOperation) and isinstance(plain.operator, cst.Divide) and cast in {"", "float32"}:
        return plain, code(grouped(plain.right))
    if not isinstance(plain, cst.Call):
        return None
    called = name_of(plain, text.tl)
    if called == "sum":
        inner, cast = _uncast(plain.args[0].value)
        scalar = isinstance(inner, cst.BinaryOperation) and flow.of(inner.right).shape == ()
        if isinstance(inner, cst.BinaryOperation) and isinstance(inner.operator, cst.Divide) and scalar and not cast:
            return inner, code(grouped(inner.right))
    format_of_sum = value_of(plain, "dot", "out_dtype") if called == "dot" else None
    if called == "dot" and (format_of_sum is None or code(format_of_sum) == f"{text.tl}.float32"):
        for operand, kept in (("input", "[:, None]"), ("other", "[None, :]")):
            given = value_of(plain, "dot", operand)
            if given is None:
                continue
            inner, cast = _uncast(given)
            if not isinstance(inner, cst.BinaryOperation) or not isinstance(inner.operator, cst.Divide):
                continue
            divisor = code(inner.right)
            if not divisor.replace(" ", "").endswith(kept.replace(" ", "")) and flow.of(inner.right).shape != ():
                continue
            if cast in {"", "bfloat16", "float32"} or is_exponential(text, inner.left):
                return inner, code(grouped(inner.right))
    return None


def _uncast(node: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """Return what is cast by `.to(tl.float16)`, with the format's name (a format of another kind: as written)."""
    if (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "to"
        and node.args
    ):
        return node.func.value, code(node.args[0].value).rpartition(".")[2]
    return node, ""


def is_exponential(text: KernelText, node: cst.BaseExpression) -> bool:
    """Tell whether a value is `exp(x - m)`, directly or by a name that is set once."""
    if isinstance(node, cst.Name):
        values = [
            n.value
            for n in nodes_of(text.function)
            if isinstance(n, cst.Assign) and code(n.targets[0].target) == node.value
        ]
        return len(values) == 1 and not isinstance(values[0], cst.Name) and is_exponential(text, values[0])
    if not isinstance(node, cst.Call) or name_of(node, text.tl) not in {"exp", "exp2"}:
        return False
    inner = node.args[0].value
    return isinstance(inner, cst.BinaryOperation) and isinstance(inner.operator, cst.Subtract)


def _is_the_same(text: KernelText, divisor: cst.BaseExpression) -> bool:
    """Tell whether a divisor of the same variables has the same value behind the loop: it loads nothing."""
    calls = [n for n in (divisor, *nodes_of(divisor)) if isinstance(n, cst.Call)]
    return all(name_of(n, text.tl) in ELEMENTWISE or code(n.func).endswith(".to") for n in calls)


def _result(text: KernelText, loop: cst.For, name: str, divisor: str) -> str:
    """Return the sum divided; where no round was made it stays 0, though it be divided by 0."""
    call = loop.iter
    parts = [a.value for a in call.args if a.keyword is None] if isinstance(call, cst.Call) else []
    stop = code(parts[min(1, len(parts) - 1)]) if parts else ""
    if divisor == stop:
        return f"{name} / {text.tl}.maximum({divisor}, 1)"
    if not _comes_from_a_loop(text, divisor):
        return f"{name} / {divisor}"
    if not parts or (len(parts) > 1 and integer(parts[0]) != 0):
        raise Refused(f"{divisor} may be 0 where the loop makes no round")
    return f"{text.tl}.where({stop} > 0, {name} / {divisor}, 0.0)"


def _comes_from_a_loop(text: KernelText, divisor: str) -> bool:
    """Tell whether a divisor is made of what loops add up, such as a row's sum of exponentials: 0 without a round."""
    names = names_in(cst.parse_expression(divisor))
    for node in reversed([n for n in nodes_of(text.function.body) if isinstance(n, cst.Assign)]):
        if names & sets(node):
            names |= names_in(node.value)
    return any(isinstance(n, cst.For | cst.While) and names & sets(n.body) for n in nodes_of(text.function.body))


def _begins_as_zeros(text: KernelText, loop: cst.For, name: str) -> bool:
    """Tell whether the one place that sets the sum outside of the loop makes zeros of it, beside the loop."""
    for node in (text.function, *nodes_of(text.function)):
        body = getattr(node, "body", None)
        statements = getattr(body, "body", ()) if isinstance(body, cst.IndentedBlock) else ()
        if loop not in statements:
            continue
        before = list(statements)[: list(statements).index(loop)]
        setting = [s for s in before if name in sets(s)]
        if not setting or not isinstance(setting[-1], cst.SimpleStatementLine):
            return False
        small = setting[-1].body[0]
        if any(_counted(s, name) for s in before[before.index(setting[-1]) + 1 :]):
            return False
        # In half precision a sum that is not divided yet may leave the range.
        single = f"{text.tl}.float32"
        zero = isinstance(small, cst.Assign) and (
            (name_of(small.value, text.tl) == "zeros" and single in code(small.value))
            or code(small.value) in {"0.0", "0."}
        )
        return zero and len(setting[-1].body) == 1
    return False


def _counted(node: cst.CSTNode, name: str) -> int:
    return sum(isinstance(n, cst.Name) and n.value == name for n in nodes_of(node))


def _divided(loop: cst.For, sums: list[_Sum]) -> cst.FlattenSentinel[cst.BaseStatement]:
    new = loop.visit(_Numerators({id(one.quotient) for one in sums}))
    assert isinstance(new, cst.For)
    lines = [cst.parse_statement(f"{one.name} = {one.result}") for one in sums]
    return cst.FlattenSentinel([new, *lines])


class _Numerators(cst.CSTTransformer):
    """Leaves what is divided in the place of quotients."""

    def __init__(self, quotients: set[int]) -> None:
        super().__init__()
        self.quotients = quotients

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        if id(original_node) not in self.quotients:
            return updated_node
        left = updated_node.left
        simple = isinstance(left, cst.Name | cst.Call | cst.Subscript | cst.Attribute)
        return left if simple or left.lpar else left.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
