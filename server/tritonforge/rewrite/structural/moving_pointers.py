"""Pointers that a loop moves on by as much in each round, as the place they are at in a round.

`a_at += BLOCK_K * stride_ak` behind the loads of `for k in range(0, K, BLOCK_K)` is, in a round, where `a_at` began and
`k * stride_ak` on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.rewrite.structural.calls import grouped, integer
from tritonforge.rewrite.structural.kernel_text import code
from tritonforge.rewrite.structural.loops import bare, names_in, sets, times_set
from tritonforge.rewrite.structural.standing import Place, Standing


@dataclass(frozen=True)
class Moving:
    """A pointer that moves: where it begins, and what it moves by in a round.

    `variable` is the loop's, which is the number of the round times `step`; `by` are the factors of how far a round
    moves it.
    """

    value: cst.BaseExpression
    place: Place
    variable: cst.Name
    step: str
    by: tuple[cst.BaseExpression, ...]

    def along(self, factors: Sequence[cst.BaseExpression]) -> cst.BaseExpression | None:
        """Return where an index is in a round that `factors` multiply; None if it does not move along that axis."""
        words = Counter(bare(code(one)) for one in factors)
        rest = []
        for one in self.by:
            if words[bare(code(one))] > 0:
                words[bare(code(one))] -= 1
            else:
                rest.append(one)
        if +words:
            return None
        if self.step != "1":
            return self.variable if [bare(code(one)) for one in rest] == [self.step] else None
        index: cst.BaseExpression = self.variable
        for one in rest:
            index = cst.BinaryOperation(index, cst.Multiply(), grouped(one))
        return index


def moving(standing: Standing, name: str) -> Moving | None:
    """Return how the innermost loop around a statement moves a pointer on behind it; None if not in this way."""
    body, place = standing.way[-1]
    loop = standing.loops[-1]
    behind = [one for one in body.body[place + 1 :] if name in sets(one)]
    line = behind[0] if len(behind) == 1 else None
    # Several pointers may move on in one line.
    inside = [one for one in line.body if name in sets(one)] if isinstance(line, cst.SimpleStatementLine) else []
    small = inside[0] if len(inside) == 1 else None
    adds = isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign)
    if not adds or times_set(body)[name] != 1 or not isinstance(loop.target, cst.Name):
        return None
    assert isinstance(small, cst.AugAssign)
    step = _step(loop)
    around, own = standing.way[-2]
    before = [i for i, one in enumerate(around.body[:own]) if name in sets(one)]
    start = around.body[before[0]] if len(before) == 1 and times_set(around)[name] == 2 else None
    made = start.body[0] if isinstance(start, cst.SimpleStatementLine) and len(start.body) == 1 else None
    steady = not (names_in(small.value) & sets(loop))
    if step is None or not isinstance(made, cst.Assign) or len(made.targets) != 1 or not steady:
        return None
    return Moving(made.value, (len(standing.way) - 2, before[0]), loop.target, step, tuple(_factors(small.value)))


def _step(loop: cst.For) -> str | None:
    """Return what a loop from 0 counts by, as text without spaces; None for another loop."""
    call = loop.iter
    if not isinstance(call, cst.Call) or code(call.func).rpartition(".")[2] != "range":
        return None
    parts = [a.value for a in call.args if a.keyword is None]
    if any(a.star for a in call.args) or not 1 <= len(parts) <= 3 or (len(parts) > 1 and integer(parts[0]) != 0):
        return None
    return bare(code(parts[2])) if len(parts) == 3 else "1"


def _factors(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node
