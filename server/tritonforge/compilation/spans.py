"""Integers of one program as spans: the least and the largest value over the lanes of a block, both really taken.

Unlike `values`, which describes a block by base and strides and may be off where it wraps, a span is given only where
it is exact for the sum, product, quotient or bound at hand; anything else is not known.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tritonforge.compilation.mlir import Operation

INT32 = (1 << 31) - 1


@dataclass(frozen=True)
class Span:
    """`low` to `high`, None when not known; for an address, in elements from the parameter `pointer`.

    `step` is 1 where every value in between is taken, which a remainder needs to know. `passed` and `passed_line` are
    as in `Extreme`.
    """

    low: int | None = None
    high: int | None = None
    pointer: str | None = None
    step: int = 0
    passed: int = 0
    passed_line: int = 0
    widest: int = 0

    @property
    def exact(self) -> int | None:
        """The value, where all lanes have the same."""
        return self.low if self.low == self.high else None

    @property
    def known(self) -> bool:
        """Whether the bounds are known."""
        return self.low is not None and self.high is not None


UNKNOWN = Span()
Spans = dict[str, Span]


def span_of(operation: Operation, env: Mapping[str, Span], line: int) -> Span:
    """Return the span of an operation's result. `line` is where it stands, for what passes 32 bits."""
    values = [env.get(name, UNKNOWN) for name in operation.operands]
    rule = _RULES.get(operation.name)
    if rule is None:
        return UNKNOWN
    try:
        found = rule(operation, values)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return UNKNOWN
    if operation.name in _KEEPING:
        return found
    carried = max(values, key=lambda v: v.passed, default=UNKNOWN)
    widest = max((v.widest for v in values), default=0)
    found = replace(found, passed=carried.passed, passed_line=carried.passed_line, widest=widest)
    kind = operation.type()
    if operation.name in _GROWING and kind is not None and kind.element == "i32" and found.high is not None:
        top = found.high
        found = replace(found, widest=max(widest, top))
        if top > max(INT32, found.passed):
            return replace(found, passed=top, passed_line=line)
    return found


_GROWING = frozenset(["arith.addi", "arith.muli", "arith.shli"])
_KEEPING = frozenset(["tt.splat", "tt.expand_dims", "tt.broadcast", "tt.trans", "tt.reshape", "arith.extsi"])
_Rule = Callable[[Operation, Sequence[Span]], Span]


def _constant(operation: Operation, _: Sequence[Span]) -> Span:
    text = operation.text.strip()
    dense = re.match(r"dense<([^\[\]<>]*)>", text)
    text = dense[1] if dense else text.split(" ")[0]
    value = {"true": 1, "false": 0}.get(text)
    value = int(text) if value is None else value
    return Span(value, value, step=1)


def _range(operation: Operation, _: Sequence[Span]) -> Span:
    start, end = (re.search(rf"\b{word} = (-?\d+)", operation.text) for word in ("start", "end"))
    return Span(int(start[1]), int(end[1]) - 1, step=1) if start and end else UNKNOWN


def _same(_: Operation, values: Sequence[Span]) -> Span:
    return values[0]


def _add(_: Operation, values: Sequence[Span]) -> Span:
    a, b = values[:2]
    pointer = a.pointer or b.pointer
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Span(pointer=pointer)
    step = 1 if (a.step == 1 and b.exact is not None) or (b.step == 1 and a.exact is not None) else 0
    return Span(a.low + b.low, a.high + b.high, pointer, step)


def _subtract(_: Operation, values: Sequence[Span]) -> Span:
    a, b = values[:2]
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return UNKNOWN
    if a.exact is None and b.exact is None:
        return UNKNOWN  # the lanes of both move together, as likely as not
    return Span(a.low - b.high, a.high - b.low, step=a.step if b.exact is not None else b.step)


def _multiply(_: Operation, values: Sequence[Span]) -> Span:
    a, b = values[:2]
    if a.exact is None:
        a, b = b, a
    if a.exact is None or b.low is None or b.high is None:
        return UNKNOWN
    ends = sorted((a.exact * b.low, a.exact * b.high))
    return Span(ends[0], ends[1], step=1 if a.exact in {1, -1} or a.exact == 0 else 0)


def _divide(function: Callable[[int, int], int]) -> _Rule:
    def rule(_: Operation, values: Sequence[Span]) -> Span:
        a, b = values[:2]
        if a.low is None or a.high is None or not b.exact or b.exact < 0 or a.low < 0:
            return UNKNOWN
        return Span(function(a.low, b.exact), function(a.high, b.exact), step=a.step)

    return rule


def _remainder(_: Operation, values: Sequence[Span]) -> Span:
    a, b = values[:2]
    if a.low is None or a.high is None or not b.exact or b.exact < 0 or a.low < 0:
        return UNKNOWN
    if a.low // b.exact == a.high // b.exact:
        return Span(a.low % b.exact, a.high % b.exact, step=a.step)
    return Span(0, b.exact - 1, step=1) if a.step == 1 else UNKNOWN


def _bound(function: Callable[[int, int], int]) -> _Rule:
    def rule(_: Operation, values: Sequence[Span]) -> Span:
        a, b = values[:2]
        if a.exact is None and b.exact is None:
            return UNKNOWN
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return UNKNOWN
        return Span(function(a.low, b.low), function(a.high, b.high), step=min(a.step, b.step))

    return rule


def _scalars(function: Callable[[int, int], int]) -> _Rule:
    def rule(_: Operation, values: Sequence[Span]) -> Span:
        a, b = (value.exact for value in values[:2])
        if a is None or b is None:
            return UNKNOWN
        return Span(function(a, b), function(a, b), step=1)

    return rule


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le, "sgt": operator.gt,
    "sge": operator.ge, "ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge,
}  # fmt: skip


def _compare(operation: Operation, values: Sequence[Span]) -> Span:
    function = _COMPARISONS[operation.text.split(",")[0].strip()]
    a, b = values[:2]
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return UNKNOWN
    ends = {function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)}
    name = operation.text.split(",")[0].strip()
    if name in {"eq", "ne"} and (a.exact is None or b.exact is None):
        return UNKNOWN
    return Span(int(ends == {True}), int(ends == {True}), step=1) if len(ends) == 1 else UNKNOWN


def _select(_: Operation, values: Sequence[Span]) -> Span:
    condition, yes, no = values[:3]
    if condition.exact is None:
        return yes if yes == no else UNKNOWN
    return yes if condition.exact else no


_RULES: dict[str, _Rule] = {
    "arith.constant": _constant,
    "tt.make_range": _range,
    "tt.splat": _same,
    "tt.expand_dims": _same,
    "tt.broadcast": _same,
    "tt.trans": _same,
    "tt.reshape": _same,
    "arith.extsi": _same,
    "arith.extui": _same,
    "arith.trunci": _same,
    "arith.index_cast": _same,
    "tt.addptr": _add,
    "arith.addi": _add,
    "arith.subi": _subtract,
    "arith.muli": _multiply,
    "arith.divsi": _divide(operator.floordiv),
    "arith.divui": _divide(operator.floordiv),
    "arith.floordivsi": _divide(operator.floordiv),
    "arith.ceildivsi": _divide(lambda a, b: -(-a // b)),
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.minsi": _bound(min),
    "arith.maxsi": _bound(max),
    "arith.shli": _scalars(lambda a, b: a << min(b, 64)),
    "arith.shrsi": _scalars(lambda a, b: a >> min(b, 64)),
    "arith.andi": _scalars(operator.and_),
    "arith.ori": _scalars(operator.or_),
    "arith.xori": _scalars(operator.xor),
    "arith.cmpi": _compare,
    "arith.select": _select,
}
