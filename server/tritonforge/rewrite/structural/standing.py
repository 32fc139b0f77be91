"""What the names of a kernel stand for, seen from one statement in it.

A statement lies in loops, which lie in the kernel's body. `Standing` follows a name to the one assignment that it comes
from, and refuses where that might be another one in another round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import name_of
from tritonforge.rewrite.structural.kernel_text import KernelText, code
from tritonforge.rewrite.structural.loops import names_in, times_set

Place = tuple[int, int]
"""How many loops are around a statement of the way to where one stands, and its place in the body there."""

Way = tuple[tuple[cst.BaseSuite, int], ...]
"""The bodies around a statement, the kernel's own first, with its place in each."""

OUTSIDE: Place = (-1, -1)
"""Of parameters and of what the module defines."""


@dataclass(frozen=True)
class Found:
    """Where a name is set, and to what; None for a parameter, a loop's variable and what is no plain assignment."""

    place: Place
    value: cst.BaseExpression | None = None


class Standing:
    """One statement of a kernel, with the loops around it.

    Args:
        text: the kernel.
        way: the bodies around the statement.
        loops: the loops whose bodies those are, but for the kernel's own.
    """

    def __init__(self, text: KernelText, way: Way, loops: tuple[cst.For, ...]) -> None:
        self.text, self.way, self.loops = text, way, loops

    @property
    def here(self) -> Place:
        """The place of the statement itself."""
        return len(self.way) - 1, self.way[-1][1]

    @property
    def outermost(self) -> int:
        """The place in the kernel's body of the statement that all of it lies in."""
        return self.way[0][1]

    def find(self, name: str, at: Place) -> Found:
        """Return where `name` is set that an expression at `at` reads.

        Raises:
            Refused: it is set more than once, or behind the expression, for the next round.
        """
        for depth in range(at[0], -1, -1):
            body, own = self.way[depth]
            before = at[1] if depth == at[0] else own
            loop = self.loops[depth - 1] if depth else None
            times = _times(body)[name] + (loop is not None and name in names_in(loop.target))
            if not times:
                continue
            if times > 1:
                raise Refused(f"{name} is set more than once")
            if loop is not None and name in names_in(loop.target):
                return Found((depth, -1))
            place = next(i for i, one in enumerate(body.body) if _times(one)[name])
            if place >= before:
                raise Refused(f"{name} moves on with each round")
            return Found((depth, place), _value(body.body[place], name))
        return Found(OUTSIDE)

    def steady(self, node: cst.BaseExpression, at: Place) -> bool:
        """Tell whether an expression at `at` is what it is before everything that the statement lies in."""
        places = [self.find(name, at).place for name in names_in(node) if name not in {self.text.tl, "min", "max"}]
        return all(depth <= 0 and place < self.outermost for depth, place in places)

    def opened(self, node: cst.BaseExpression, at: Place) -> tuple[cst.BaseExpression, Place]:
        """Return what a variable stands for, or a cast to 64 bits casts; anything else as it is."""
        while True:
            inner = cast_to_64_bits(node, self.text.tl)
            if inner is not None:
                node = inner
                continue
            found = self.find(node.value, at) if isinstance(node, cst.Name) else Found(OUTSIDE)
            if found.value is None:
                return node, at
            node, at = found.value, found.place

    def is_wide(self, node: cst.BaseExpression, at: Place) -> bool:
        """Tell whether an expression of whole numbers is one of 64 bits, as far as the kernel's text says so."""
        if cast_to_64_bits(node, self.text.tl) is not None:
            return True
        if isinstance(node, cst.Name):
            found = self.find(node.value, at)
            return found.value is not None and self.is_wide(found.value, found.place)
        return any(self.is_wide(child, at) for child in node.children if isinstance(child, cst.BaseExpression))


def statements_in_loops(text: KernelText) -> Iterator[tuple[Standing, cst.SimpleStatementLine]]:
    """Yield the statements that stand in loops of the kernel and in no branch, in the order of the text."""
    yield from _statements(text, (), (), text.function.body)


def _statements(
    text: KernelText,
    way: Way,
    loops: tuple[cst.For, ...],
    body: cst.BaseSuite,
) -> Iterator[tuple[Standing, cst.SimpleStatementLine]]:
    for place, statement in enumerate(body.body):
        here = (*way, (body, place))
        if isinstance(statement, cst.For):
            yield from _statements(text, here, (*loops, statement), statement.body)
        elif loops and isinstance(statement, cst.SimpleStatementLine):
            yield Standing(text, here, loops), statement


def sum_of(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield `a`, `b`, … of `a + b + …`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        yield from sum_of(node.left)
        yield from sum_of(node.right)
    else:
        yield node


def cast_to_64_bits(node: cst.BaseExpression, tl: str) -> cst.BaseExpression | None:
    """Return `x` of `x.to(tl.int64)`; None for anything else."""
    if not isinstance(node, cst.Call) or len(node.args) not in {1, 2}:
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to" and len(node.args) == 1:
        return node.func.value if code(node.args[0].value) == f"{tl}.int64" else None
    if name_of(node, tl) == "cast" and len(node.args) == 2 and code(node.args[1].value) == f"{tl}.int64":
        return node.args[0].value
    return None


@lru_cache(maxsize=2048)
def _times(node: cst.CSTNode) -> Counter[str]:
    # The same bodies are asked about for each name that is followed. Nodes hash by identity.
    return times_set(node)


def _value(statement: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """Return what a statement sets a name to, where it is `name = …` and nothing more."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    small = statement.body[0]
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and code(small.targets[0].target) == name:
        return small.value
    return None
