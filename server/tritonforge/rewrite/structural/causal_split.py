"""A causal loop in two: blocks left of the diagonal without a mask, then those that the diagonal crosses.

Preconditions: a loop from 0 over blocks of keys masks scores with `keys <= rows`, perhaps also with `keys < length`,
and with nothing else; rows are those of a block of BLOCK_M, so that the first of them says which blocks of keys all
rows see. Blocks are met in the same order, so rows of which a block hides everything (BLOCK_N below BLOCK_M) see first
what they saw first before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tritonforge.domain.finding import BottleneckClass
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural.calls import integer, name_of
from tritonforge.rewrite.structural.frame import Absent, Change
from tritonforge.rewrite.structural.kernel_text import KernelText, code, nodes_of


@dataclass(frozen=True)
class _Masked:
    """A loop with a causal mask: the statement that applies it, and what decides about it as text."""

    loop: cst.For
    applied: cst.SimpleStatementLine
    condition: str
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
        if not _steps_by(text, masked, code(step)):
            raise Refused(f"{masked.keys} are not the {code(step)} keys of a round")
        _check_stop(text, code(stop), masked, first)
        name = text.fresh("full_end", "unmasked_end")
        reach = f"{text.tl}.minimum({first} + 1, {masked.bound})" if masked.bound else f"({first} + 1)"
        line = cst.parse_statement(f"{name} = {reach} // {code(step)} * {code(step)}")
        assert isinstance(line, cst.SimpleStatementLine)
        line = line.with_changes(
            leading_lines=[
                *loop.leading_lines,
                cst.EmptyLine(comment=cst.Comment("# Every row sees all keys of the blocks before this one.")),
            ]
        )
        before = loop.with_changes(
            leading_lines=(),
            iter=_with_bounds(loop.iter, start, cst.Name(name)),
            body=_unmasked(masked),
        )
        behind = loop.with_changes(leading_lines=(), iter=_with_bounds(loop.iter, cst.Name(name), stop))
        body = list(text.function.body.body)
        at = body.index(loop)
        body[at : at + 1] = [line, before, behind]
        function = text.with_body(body)
        yield Change("causal loop split at the diagonal", text.edits(function))


def _masked(text: KernelText) -> _Masked:
    loops = [
        s
        for s in text.function.body.body
        if isinstance(s, cst.For)
        and isinstance(s.iter, cst.Call)
        and code(s.iter.func) in {"range", f"{text.tl}.range"}
        and len([a for a in s.iter.args if a.keyword is None]) == 3
    ]
    reason = "no loop over blocks masks what lies beyond the diagonal"
    for loop in loops:
        for statement in loop.body.body:
            condition = _applied(statement, text.tl)
            if condition is None or not isinstance(statement, cst.SimpleStatementLine):
                continue
            terms = list(_terms(_resolved(condition, loop)))
            causal = [t for t in map(_causal, terms) if t is not None]
            if len(causal) != 1:
                continue
            keys, rows = causal[0]
            if not _is_column(text, loop, keys):
                keys, rows = rows, keys
                continue
            rest = [t for t in terms if _causal(t) is None]
            bounds = [_bound(t, keys) for t in rest]
            if any(b is None for b in bounds) or len(bounds) > 1:
                raise Refused(f"the mask has a part that is neither the diagonal nor the end: {code(condition)}")
            return _Masked(loop, statement, code(condition), keys, rows, (bounds[0] or "") if bounds else "")
    raise Absent(reason)


def _applied(statement: cst.CSTNode, tl: str) -> cst.BaseExpression | None:
    """Return the condition of `x = tl.where(condition, x, constant)`."""
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
        return None
    assignment = statement.body[0]
    value = assignment.value
    if name_of(value, tl) != "where" or not isinstance(value, cst.Call) or len(value.args) != 3:
        return None
    if code(value.args[1].value) != code(assignment.targets[0].target):
        return None
    other = code(value.args[2].value).replace(" ", "").lstrip("-")
    constant = other.startswith("float(") or other.replace(".", "").replace("e", "").isdigit()
    return value.args[0].value if constant else None


def _resolved(condition: cst.BaseExpression, loop: cst.For) -> cst.BaseExpression:
    if not isinstance(condition, cst.Name):
        return condition
    found = [
        n.value
        for n in nodes_of(loop.body)
        if isinstance(n, cst.Assign) and code(n.targets[0].target) == condition.value
    ]
    return found[0] if len(found) == 1 else condition


def _terms(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _causal(node: cst.BaseExpression) -> tuple[str, str] | None:
    """Return keys and rows of `keys[None, :] <= rows[:, None]`, whichever way round it is written."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    (comparison,) = node.comparisons
    sides = (_axis(node.left), _axis(comparison.comparator))
    if None in sides or sides[0] is None or sides[1] is None or sides[0][1] == sides[1][1]:
        return None
    if isinstance(comparison.operator, cst.LessThanEqual):
        return sides[0][0], sides[1][0]
    if isinstance(comparison.operator, cst.GreaterThanEqual):
        return sides[1][0], sides[0][0]
    return None


def _axis(node: cst.BaseExpression) -> tuple[str, str] | None:
    """Return `x` and which axis it lies along, for `x[:, None]` and `x[None, :]`; sums too: `(start + x[None, :])`."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 2:
        words = code(node).replace(" ", "")
        if words.endswith("[:,None]"):
            return code(node.value), "rows"
        if words.endswith("[None,:]"):
            return code(node.value), "columns"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        side = _axis(node.right)
        if side is not None:
            return f"{code(node.left)} + {side[0]}", side[1]
    return None


def _bound(node: cst.BaseExpression, keys: str) -> str | None:
    """Return what `keys[None, :] < length` bounds the keys by."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    (comparison,) = node.comparisons
    side = _axis(node.left)
    if side is None or side[0] != keys or not isinstance(comparison.operator, cst.LessThan):
        return None
    return code(comparison.comparator) if isinstance(comparison.comparator, cst.Name) else None


def _definition(function: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    found = [n.value for n in nodes_of(function) if isinstance(n, cst.Assign) and code(n.targets[0].target) == name]
    return found[0] if len(found) == 1 else None


def _is_column(text: KernelText, loop: cst.For, keys: str) -> bool:
    """Tell whether `keys` move with the loop."""
    variable = code(loop.target)
    if variable in keys.replace("(", " ").replace(")", " ").split():
        return True
    value = _definition(text.function, keys) if keys.isidentifier() else None
    return value is not None and any(isinstance(n, cst.Name) and n.value == variable for n in (value, *nodes_of(value)))


def _steps_by(text: KernelText, masked: _Masked, step: str) -> bool:
    """Tell whether the keys of a round are `start`, `start + 1`, … below `start + step`."""
    variable = code(masked.loop.target)
    value = _definition(text.function, masked.keys) if masked.keys.isidentifier() else None
    words = code(value) if value is not None else masked.keys
    left, _, right = words.replace(" ", "").partition("+")
    if left != variable:
        left, right = right, left
    if left != variable:
        return False
    whole = f"{text.tl}.arange(0,{step})"
    lanes = _definition(text.function, right) if right.isidentifier() else None
    return right == whole or (lanes is not None and code(lanes).replace(" ", "") == whole)


def _first_row(text: KernelText, rows: str) -> str:
    """Return the first row of the program's block: `block * BLOCK_M` of `block * BLOCK_M + tl.arange(0, BLOCK_M)`.

    Raises:
        Refused: rows are no block in a row.
    """
    value = _definition(text.function, rows) if rows.isidentifier() else None
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        for base, lanes in ((value.left, value.right), (value.right, value.left)):
            if name_of(lanes, text.tl) == "arange" and code(lanes).replace(" ", "").startswith(f"{text.tl}.arange(0,"):
                return code(base)
    raise Refused(f"{rows} are not the rows of a block in a row")


def _check_stop(text: KernelText, stop: str, masked: _Masked, first: str) -> None:
    """Check that the loop goes as far as the unmasked blocks do: to the length, or past the block's first row."""
    words = stop
    value = _definition(text.function, stop) if stop.isidentifier() else None
    if value is not None:
        words = code(value)
    parts = words.replace(" ", "")
    block = first.replace(" ", "").partition("*")
    whole = {masked.bound, f"({block[0]}+1)*{block[2]}", f"{block[2]}*({block[0]}+1)"}
    minimum = f"{text.tl}.minimum("
    if parts.startswith(minimum) and parts.endswith(")"):
        inner = parts[len(minimum) : -1]
        sides = [inner[:i].strip() for i in range(len(inner)) if inner[i] == ","] + [
            inner[i + 1 :] for i in range(len(inner)) if inner[i] == ","
        ]
        if len(sides) == 2 and set(sides) <= whole and "" not in sides:
            return
    if parts in whole and parts:
        return
    raise Refused(f"where the loop over keys ends, {words}, is neither the length nor the block's last row")


def _with_bounds(call: cst.Call, start: cst.BaseExpression, stop: cst.BaseExpression) -> cst.Call:
    first, second, *rest = call.args
    return call.with_changes(args=[first.with_changes(value=start), second.with_changes(value=stop), *rest])


def _unmasked(masked: _Masked) -> cst.BaseSuite:
    """Return the loop's body without the mask, and without what is computed for the mask alone."""
    kept: Sequence[cst.BaseStatement] = [s for s in masked.loop.body.body if s is not masked.applied]  # type: ignore[misc]
    if masked.condition.isidentifier():
        others = sum(isinstance(n, cst.Name) and n.value == masked.condition for s in kept for n in nodes_of(s))
        if others == 1:
            kept = [s for s in kept if not _assigns(s, masked.condition)]
    return masked.loop.body.with_changes(body=kept)


def _assigns(statement: cst.BaseStatement, name: str) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Assign)
        and code(statement.body[0].targets[0].target) == name
    )
