"""A causal loop in two: blocks left of the diagonal without a mask, then those that the diagonal crosses.

Preconditions: a loop from 0 over blocks of keys masks scores with `keys <= rows`, perhaps also with `keys < length`,
and with nothing else; rows are those of a block of BLOCK_M, so that the first of them says which blocks of keys all
rows see. Blocks are met in the same order, so rows of which a block hides everything (BLOCK_N below BLOCK_M) see first
what they saw first before. Where no key before the diagonal lies beyond the length, loads do not ask for that either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import integer, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code
from tritonforge.rewrite.structural.masked_loops import (
    applied,
    axis,
    block_loops,
    bound,
    definition,
    is_column,
    resolved,
    split_at,
    steps_by,
    terms,
)


@dataclass(frozen=True)
class _Masked:
    """A loop with a causal mask: the statement that applies it, and what decides about it as text."""

    loop: cst.For
    applied: cst.SimpleStatementLine
    keys: str
    rows: str
    bound: str


class CausalSplit:
    """Unmasked blocks apart from masked ones."""

    name = "causal-split"
    treats = frozenset({"TF306", "TF205"})
    classes: frozenset[BottleneckClass] = frozenset(
        {"tensor-core", "fp32-compute", "special-function", "latency", "load-imbalance"}
    )

    def changes(self, text: KernelText) -> Iterator[Change]:
        """Yield the one way of making it."""
        masked = _masked(text)
        loop = masked.loop
        assert isinstance(loop.iter, cst.Call)
        start, stop, step = (a.value for a in loop.iter.args[:3])
        first = _first_row(text, masked.rows)
        if integer(start) != 0:
            raise Refused("the loop over keys does not begin at 0")
        if not steps_by(text, loop, masked.keys, code(step)):
            raise Refused(f"{masked.keys} are not the {code(step)} keys of a round")
        reach, length = _reach(text, stop, masked, first)
        comment = "Every row sees all keys of the blocks before this one."
        function = split_at(text, loop, reach, comment, [masked.applied], below=(masked.keys, length))
        yield Change("causal loop split at the diagonal", text.edits(function))


def _masked(text: KernelText) -> _Masked:
    reason = "no loop over blocks masks what lies beyond the diagonal"
    for loop in block_loops(text):
        for statement in loop.body.body:
            condition = applied(statement, text.tl)
            if condition is None or not isinstance(statement, cst.SimpleStatementLine):
                continue
            parts = list(terms(resolved(condition, loop)))
            causal = [t for t in map(_causal, parts) if t is not None]
            if len(causal) != 1:
                continue
            keys, rows = causal[0]
            if not is_column(text, loop, keys):
                continue
            rest = [t for t in parts if _causal(t) is None]
            bounds = [bound(t, keys) for t in rest]
            if any(b is None for b in bounds) or len(bounds) > 1:
                raise Refused(f"the mask has a part that is neither the diagonal nor the end: {code(condition)}")
            return _Masked(loop, statement, keys, rows, (bounds[0] or "") if bounds else "")
    raise Absent(reason)


def _causal(node: cst.BaseExpression) -> tuple[str, str] | None:
    """Return keys and rows of `keys[None, :] <= rows[:, None]`, whichever way round it is written."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    (comparison,) = node.comparisons
    sides = (axis(node.left), axis(comparison.comparator))
    if None in sides or sides[0] is None or sides[1] is None or sides[0][1] == sides[1][1]:
        return None
    if isinstance(comparison.operator, cst.LessThanEqual):
        return sides[0][0], sides[1][0]
    if isinstance(comparison.operator, cst.GreaterThanEqual):
        return sides[1][0], sides[0][0]
    return None


def _first_row(text: KernelText, rows: str) -> str:
    """Return the first row of the program's block: `block * BLOCK_M` of `block * BLOCK_M + tl.arange(0, BLOCK_M)`.

    Raises:
        Refused: rows are no block in a row.
    """
    value = definition(text.function, rows) if rows.isidentifier() else None
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        for base, lanes in ((value.left, value.right), (value.right, value.left)):
            if name_of(lanes, text.tl) == "arange" and code(lanes).replace(" ", "").startswith(f"{text.tl}.arange(0,"):
                return code(base)
    raise Refused(f"{rows} are not the rows of a block in a row")


def _reach(text: KernelText, stop: cst.BaseExpression, masked: _Masked, first: str) -> tuple[str, str]:
    """Return up to where every row sees every key: one past the block's first row, or the length if that is less.

    And that length, empty where none is known.

    Raises:
        Refused: the loop may end before that, so that blocks would be added to it.
    """
    value = definition(text.function, stop.value) if isinstance(stop, cst.Name) else None
    parts = _least_of(value if value is not None else stop, text.tl)
    block, _, rows = first.replace(" ", "").partition("*")
    last = {f"({block}+1)*{rows}", f"{rows}*({block}+1)", f"{rows}*{block}+{rows}", f"{block}*{rows}+{rows}"}
    lengths = [code(p) for p in parts if code(p).replace(" ", "") not in last]
    known = text.kernel.parameter(lengths[0]) if lengths else None
    is_length = known is not None and known.role in {"scalar", "meaning"} and masked.bound in {"", lengths[0]}
    if len(parts) > 2 or len(lengths) > 1 or (lengths and not is_length) or (not masked.bound and lengths == parts):
        words = code(value if value is not None else stop)
        raise Refused(f"where the loop over keys ends, {words}, is neither the length nor the block's last row")
    bound = masked.bound or (lengths[0] if lengths else "")
    return (f"{text.tl}.minimum({first} + 1, {bound})" if bound else f"({first} + 1)"), bound


def _least_of(node: cst.BaseExpression, tl: str) -> list[cst.BaseExpression]:
    """Return what `node` is the least of: two values of `min(a, b)` and `tl.minimum(a, b)`, else itself alone."""
    least = isinstance(node, cst.Call) and (code(node.func) == "min" or name_of(node, tl) == "minimum")
    if isinstance(node, cst.Call) and least and all(a.keyword is None and not a.star for a in node.args):
        return [a.value for a in node.args]
    return [node]
