"""Scores scaled where they are used: in the exponent of every one of them, and once in each row's maximum.

A softmax over tiles scales every score, takes the maximum, and subtracts it. Scores left as the dot gives them need no
multiplication of their own: `s·c − m` is one instruction (FFMA), and `max(s)·c` multiplies a value for each row. That
is the maximum of `s·c` where c > 0, which host code shows that computes it as a root, its reciprocal, or from literals.

Preconditions, in every loop that has such scores: `s = … * c`, then `s` masked with `tl.where(…, s, -inf)` or not,
`tl.maximum(m, tl.max(s, axis))`, and `exp2` of `s − m`; nothing else reads `s`. c is an argument, or an argument times
a positive number, and every launch passes for it what cannot be 0 or less. With `exp`, `exp2-scale` comes first: it
could not fold its factor in afterwards.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.scopes import Scopes
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.host import Host
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, nodes_of, replaced
from tritonforge.rewrite.structural.loops import read_first, times_set
from tritonforge.rewrite.structural.masked_loops import applied, definition

_ROOTS = re.compile(r"(math\.|numpy\.|np\.)?sqrt")


class LateScale:
    """Scores scaled in the exponent."""

    name = "late-scale"
    treats = frozenset({"TF204"})
    classes: frozenset[BottleneckClass] = frozenset({"special-function", "fp32-compute", "tensor-core", "latency"})

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        made: list[tuple[cst.CSTNode, Replacement]] = []
        factors: set[str] = set()
        for place, loop in enumerate(text.function.body.body):
            behind = text.function.body.body[place + 1 :]
            for factor, changes in _scores(text, loop, behind) if isinstance(loop, cst.For) else ():
                factors.add(factor)
                made += changes
        if not made:
            raise Absent("no scores are scaled before their maximum is taken")
        for factor in sorted(factors):
            _check_positive(text, factor)
        yield Change("scores scaled in the exponent", text.edits(replaced(text.function, made)))


def _scores(
    text: KernelText, loop: cst.For, behind: Sequence[cst.CSTNode]
) -> Iterator[tuple[str, list[tuple[cst.CSTNode, Replacement]]]]:
    """Yield the factor of each score that a loop scales, and what takes the place of what."""
    for line in loop.body.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.Assign) or not isinstance(small.targets[0].target, cst.Name):
            continue
        score, value = small.targets[0].target, small.value
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Multiply):
            continue
        if read_first([*loop.body.body, *behind], {score.value}):
            continue
        for plain, factor in ((value.left, value.right), (value.right, value.left)):
            if isinstance(factor, cst.Name) and any(name_of(n, text.tl) == "dot" for n in (plain, *nodes_of(plain))):
                changes = _uses(text, loop, score, factor.value)
                if changes:
                    yield factor.value, [(value, plain), *changes]


def _uses(text: KernelText, loop: cst.For, score: cst.Name, factor: str) -> list[tuple[cst.CSTNode, Replacement]]:
    """Return what becomes of the maxima and exponents of scores; nothing where something else is made of them."""
    maxima: list[tuple[cst.CSTNode, Replacement]] = []
    exponents: list[tuple[cst.CSTNode, Replacement]] = []
    masks = [statement for statement in loop.body.body if _masks(statement, score.value, text.tl)]
    known = {id(score), *(id(n) for mask in masks for n in nodes_of(mask))}
    for node in nodes_of(loop.body):
        called = name_of(node, text.tl)
        if not isinstance(node, cst.Call) or not node.args:
            continue
        value = node.args[0].value
        if called == "max" and isinstance(value, cst.Name) and value.value == score.value and len(node.args) <= 2:
            maxima.append((node, cst.parse_expression(f"{code(node)} * {factor}")))
            known.add(id(value))
        elif called == "exp2" and isinstance(value, cst.BinaryOperation):
            left = value.left
            if isinstance(value.operator, cst.Subtract) and isinstance(left, cst.Name) and left.value == score.value:
                exponents.append((left, cst.parse_expression(f"{score.value} * {factor}")))
                known.add(id(left))
    others = [n for n in nodes_of(loop) if isinstance(n, cst.Name) and n.value == score.value and id(n) not in known]
    once = times_set(loop.body)[score.value] == 1 + len(masks)
    return [*maxima, *exponents] if maxima and exponents and once and not others else []


def _masks(statement: cst.CSTNode, score: str, tl: str) -> bool:
    """Tell whether a statement sets scores to minus infinity where a mask says so."""
    condition = applied(statement, tl)
    if condition is None or not isinstance(statement, cst.SimpleStatementLine):
        return False
    assignment = statement.body[0]
    assert isinstance(assignment, cst.Assign)
    value = assignment.value
    assert isinstance(value, cst.Call)
    infinite = re.sub(r"[\s'\"]", "", code(value.args[2].value)) in {"-float(inf)", "float(-inf)"}
    reads = {n.value for n in nodes_of(condition) if isinstance(n, cst.Name)}
    return infinite and code(assignment.targets[0].target) == score and score not in reads


def _check_positive(text: KernelText, factor: str) -> None:
    """Check that what scores are scaled by is above 0.

    Raises:
        Refused: it may not be.
    """
    name = factor
    if text.kernel.parameter(factor) is None:
        value = definition(text.function, factor)
        match value:
            case cst.BinaryOperation(left=cst.Name(value=one), operator=cst.Multiply(), right=cst.Float() as number):
                name = one if float(number.evaluated_value) > 0 else ""
            case _:
                name = ""
    if not name or text.kernel.parameter(name) is None or times_set(text.function.body)[name]:
        raise Refused(f"{factor} is no argument of the kernel")
    host = Host(text)
    for site in range(len(host.nodes)):
        given = host.argument(site, name)
        if given is None or not _is_positive(given, host.scopes):
            raise Refused(f"nothing shows that {name}, by which scores are scaled, is above 0")


def _is_positive(node: ast.expr, scopes: Scopes, depth: int = 0) -> bool:
    """Tell whether an expression is above 0 whenever it is a real number."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return not isinstance(value, bool) and value > 0
        case ast.BinOp(left, ast.Pow(), right):
            # A root of something below 0 is complex, one of 0 with a minus ends the program.
            exponent = _number(right)
            root = exponent is not None and exponent < 0 and not float(exponent).is_integer()
            return root or _is_positive(left, scopes, depth)
        case ast.BinOp(left, ast.Mult(), right):
            return _is_positive(left, scopes, depth) and _is_positive(right, scopes, depth)
        case ast.BinOp(left, ast.Div(), ast.Call(func, [_])) if _ROOTS.fullmatch(ast.unparse(func)):
            return _is_positive(left, scopes, depth)
        case ast.BinOp(left, ast.Div(), right):
            return _is_positive(left, scopes, depth) and _is_positive(right, scopes, depth)
        case ast.Call(ast.Name("float"), [inner]):
            return _is_positive(inner, scopes, depth)
        case ast.Name() if depth < 3:
            variable = scopes.resolve(node)
            if variable is None or isinstance(variable.scope, ast.Module):  # others may set a module's
                return False
            return isinstance(variable.single, ast.expr) and _is_positive(variable.single, scopes, depth + 1)
    return False


def _number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int | float) else None
