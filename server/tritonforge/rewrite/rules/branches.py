"""Which of several values a launch was given: what branches of host code set, told apart by what a recording saw.

Host code often chooses its numbers by the hardware or the sizes: in the arms of an `if`, in a conditional expression,
out of a table. No test is evaluated for it. A recorded launch says what the numbers were, and often only one place can
have set them.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tritonforge.rewrite.scopes import Scopes, Variable

_DEPTH = 8
_MANY = 64
"""Combinations of possible values that are looked at; more are as good as unknown."""

Values = frozenset[int] | None
"""The integers that an expression may be; None where that is not known."""


@dataclass(frozen=True)
class Ran:
    """What one launch was seen to run with: `values` by parameter or option, `variables` by what was passed for it."""

    values: Mapping[str, int] = field(default_factory=dict)
    variables: Mapping[Variable, int] = field(default_factory=dict)


class Branches:
    """The possible values of expressions of one file."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes

    def possible(self, node: ast.AST, ran: Ran, depth: int = _DEPTH) -> Values:
        """Return the integers that `node` may be, as far as literals and the recorded launch say so."""
        match node:
            case _ if depth == 0:
                return None
            case ast.Constant(value=value):
                return frozenset([value]) if type(value) is int else None
            case ast.IfExp(body=body, orelse=other):
                return _union(self.possible(one, ran, depth - 1) for one in (body, other))
            case ast.Name() | ast.Attribute():
                return self._of_variable(node, ran, depth)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._combined((left, right), _OPERATORS[type(op)], ran, depth)
            case ast.Call(func=func, args=args, keywords=[]) if args:
                called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                function, count = _FUNCTIONS.get(called, (None, 0))
                if function is None or count not in (0, len(args)):
                    return None
                return self._combined(tuple(args), function, ran, depth)
        return None

    def taken(self, leaf: ast.expr, ran: Ran, wanted: int) -> bool:
        """Tell whether `leaf` may be the place that gave the launch `wanted`.

        Not where it is another number, nor where its arm of an `if` gives another value of the launch a number that it
        did not have.
        """
        values = self.possible(leaf, ran)
        if values is not None and wanted not in values:
            return False
        arm, end = self._arm(leaf)
        for statement in arm:
            if not isinstance(statement, ast.Assign) or self._scopes.inside(leaf, statement):
                continue
            for target in statement.targets:
                variable = self._scopes.set_by(target) if isinstance(target, ast.Name) else None
                seen = ran.variables.get(variable) if variable is not None else None
                if variable is None or seen is None or any(v is None or v.lineno > end for v in variable.values):
                    continue  # set again behind the `if`, it says nothing about this arm
                if sum(self._scopes.inside(v, one) for v in variable.values if v is not None for one in arm) > 1:
                    continue  # nor where the arm sets it twice
                others = self.possible(statement.value, ran)
                if others is not None and seen not in others:
                    return False
        return True

    def _of_variable(self, node: ast.Name | ast.Attribute, ran: Ran, depth: int) -> Values:
        variable = self._scopes.resolve(node)
        if variable is None:
            return None
        if variable in ran.variables and len(variable.values) + (variable.parameter is not None) == 1:
            return frozenset([ran.variables[variable]])
        if variable.parameter is not None or not variable.values:
            return None
        return _union(self.possible(v, ran, depth - 1) if v is not None else None for v in variable.values)

    def _combined(self, parts: tuple[ast.expr, ...], function: Callable[..., int], ran: Ran, depth: int) -> Values:
        values = [self.possible(part, ran, depth - 1) for part in parts]
        combinations = list(itertools.islice(itertools.product(*(v or () for v in values)), _MANY + 1))
        if None in values or len(combinations) > _MANY:
            return None
        try:
            return frozenset(function(*one) for one in combinations)
        except (ArithmeticError, ValueError):
            return None

    def _arm(self, node: ast.AST) -> tuple[list[ast.stmt], int]:
        """Return the statements of the innermost arm of an `if` around `node` (none without one), and its last line."""
        statement = next((a for a in self._scopes.ancestors(node) if isinstance(a, ast.stmt)), None)
        around = self._scopes.parents.get(statement) if statement is not None else None
        if not isinstance(around, ast.If):
            return [], 0
        arm = around.body if any(one is statement for one in around.body) else around.orelse
        return arm, self._whole(around).end_lineno or 0

    def _whole(self, node: ast.If) -> ast.If:
        """Return the `if` that an `elif` belongs to."""
        parent = self._scopes.parents.get(node)
        while isinstance(parent, ast.If) and parent.orelse == [node]:
            node, parent = parent, self._scopes.parents.get(parent)
        return node


def alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression may give: the arms of conditional expressions, else itself."""
    if isinstance(node, ast.IfExp):
        yield from alternatives(node.body)
        yield from alternatives(node.orelse)
    else:
        yield node


def _union(values: Iterator[Values]) -> Values:
    found: set[int] = set()
    for one in values:
        if one is None:
            return None
        found |= one
    return frozenset(found)


def _power(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()


_OPERATORS: dict[type[ast.operator], Callable[..., int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}
_FUNCTIONS: dict[str, tuple[Callable[..., int], int]] = {
    "min": (min, 0),
    "max": (max, 0),
    "next_power_of_2": (_power, 1),
    "cdiv": (lambda a, b: -(-a // b), 2),
}
"""Functions whose result is known, with how many arguments they take; 0 for two or more."""
