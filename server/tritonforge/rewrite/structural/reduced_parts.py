"""Blocks of which the sum along an axis is all that is read behind a loop: every part of the loop stores that sum.

A part of `acc[BLOCK_M, BLOCK_N]` of which `tl.sum(acc, axis=0)` is stored takes BLOCK_M times the memory that it needs,
to write and to read again. Maxima and minima likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tritonforge.rewrite.structural.blocked_rounds import NEUTRAL
from tritonforge.rewrite.structural.calls import integer, name_of, value_of
from tritonforge.rewrite.structural.carried import Carried
from tritonforge.rewrite.structural.kernel_text import KernelText, code, line_of, nodes_of, replaced_in
from tritonforge.rewrite.structural.loops import comments_of, names_in, sets


@dataclass(frozen=True)
class Stored:
    """A result of a loop as parts store it: `result` with the name that they come to, and `words` what a part stores.

    `reduction` is the call behind the loop that parts make in its place, `statement` the one that only does
    that.
    """

    result: Carried
    words: str
    reduction: cst.Call | None = None
    statement: cst.SimpleStatementLine | None = None

    def start(self, tl: str) -> list[str]:
        """Return the statement that the sum of parts begins with, where it does not begin as the loop does."""
        if self.reduction is None:
            return []
        name, shape, dtype = self.result.name, ", ".join(self.result.shape), f"{tl}.{self.result.dtype}"
        first = NEUTRAL[self.result.kind]
        if not shape:
            return [f"{name} = {first}"]
        if self.result.kind == "sum":
            return [f"{name} = {tl}.zeros(({shape},), dtype={dtype})"]
        return [f"{name} = {tl}.full(({shape},), {first}, dtype={dtype})"]


def stored(text: KernelText, result: Carried, behind: Sequence[cst.CSTNode]) -> Stored:
    """Return a result of a loop as its parts store it: reduced where all that is read behind is that."""
    plain = Stored(result, result.name)
    if result.kind not in NEUTRAL or result.dtype != "float32" or not result.shape:
        return plain
    calls = [
        n
        for statement in behind
        for n in nodes_of(statement)
        if isinstance(n, cst.Call)
        and name_of(n, text.tl) == result.kind
        and all(a.keyword is None or a.keyword.value in {"input", "axis"} for a in n.args)
        and code(n.args[0].value) == result.name
    ]
    if len(calls) != 1:
        return plain
    (call,) = calls
    shape = _reduced(result, call)
    if shape is None or len(shape) > 1:
        return plain
    found = Stored(replace(result, shape=shape), code(call), call)
    reads = [n for s in behind for n in nodes_of(s) if isinstance(n, cst.Name) and n.value == result.name]
    for place, statement in enumerate(behind):
        target = _sets_to(statement, call)
        if not target:
            continue
        assert isinstance(statement, cst.SimpleStatementLine)
        before = behind[:place]
        if target == result.name:
            # From there on the name is that of the sum.
            early = any(result.name in names_in(s) for s in before)
            return plain if early else replace(found, statement=statement)
        if len(reads) == 1 and not any(target in names_in(s) | sets(s) for s in before):
            return replace(found, result=replace(found.result, name=target), statement=statement)
    return found if len(reads) == 1 else plain


def _reduced(result: Carried, call: cst.Call) -> tuple[str, ...] | None:
    """Return the shape that a reduction leaves; None where its axis is not written."""
    given = value_of(call, result.kind, "axis")
    axis = integer(given)
    if given is None:
        return ()
    if axis is None or not -len(result.shape) <= axis < len(result.shape):
        return None
    at = axis % len(result.shape)
    return (*result.shape[:at], *result.shape[at + 1 :])


def _sets_to(statement: cst.CSTNode, call: cst.Call) -> str:
    """Return the one variable that a statement sets to what a call returns, and does nothing else."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or small.value is not call:
        return ""
    target = small.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def second_stage(
    tl: str, results: Sequence[Stored], merge: cst.For, behind: Sequence[cst.CSTNode]
) -> list[cst.BaseStatement]:
    """Return the loop over parts, with what it begins with, and what stands behind it.

    Comments of statements that go stand above what takes their place.
    """
    gone = [one.statement for one in results if one.statement is not None]
    remarks = comments_of(gone)
    made: list[cst.BaseStatement] = [line_of(x) for one in results for x in one.start(tl)]
    made.append(merge)
    if remarks:
        made[0] = made[0].with_changes(leading_lines=remarks)
    pairs = [(one.reduction, cst.Name(one.result.name)) for one in results if one.reduction and not one.statement]
    for statement in behind:
        if any(statement is one for one in gone):
            continue
        new = replaced_in(statement, pairs) if pairs else statement
        assert isinstance(new, cst.BaseStatement)
        made.append(new)
    return made
