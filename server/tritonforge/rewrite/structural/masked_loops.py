"""Loops over blocks whose scores are masked, and the same loops over blocks that need no mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tritonforge.rewrite.structural.calls import argument, grouped, name_of
from tritonforge.rewrite.structural.kernel_text import KernelText, Replacement, code, line_of, nodes_of, replaced_in


def block_loops(text: KernelText) -> list[cst.For]:
    """Return the loops over blocks, `range(start, stop, step)`, that stand in the kernel's body itself."""
    return [
        s
        for s in text.function.body.body
        if isinstance(s, cst.For)
        and isinstance(s.iter, cst.Call)
        and code(s.iter.func) in {"range", f"{text.tl}.range"}
        and len([a for a in s.iter.args if a.keyword is None]) == 3
    ]


def applied(statement: cst.CSTNode, tl: str) -> cst.BaseExpression | None:
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


def resolved(condition: cst.BaseExpression, loop: cst.For) -> cst.BaseExpression:
    """Return what a condition stands for that the loop gives a name once."""
    value = definition(loop.body, condition.value) if isinstance(condition, cst.Name) else None
    return condition if value is None else value


def terms(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield `a`, `b`, … of `a & b & …`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd):
        yield from terms(node.left)
        yield from terms(node.right)
    else:
        yield node


def axis(node: cst.BaseExpression) -> tuple[str, str] | None:
    """Return `x` and which axis it lies along, for `x[:, None]` and `x[None, :]`; sums too: `(start + x[None, :])`."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 2:
        words = code(node).replace(" ", "")
        if words.endswith("[:,None]"):
            return code(node.value), "rows"
        if words.endswith("[None,:]"):
            return code(node.value), "columns"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        side = axis(node.right)
        if side is not None:
            return f"{code(node.left)} + {side[0]}", side[1]
    return None


def bound(node: cst.BaseExpression, keys: str) -> str | None:
    """Return what `keys[None, :] < length` bounds the keys by."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    (comparison,) = node.comparisons
    side = axis(node.left)
    if side is None or side[0] != keys or not isinstance(comparison.operator, cst.LessThan):
        return None
    return code(comparison.comparator) if isinstance(comparison.comparator, cst.Name) else None


def definition(function: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """Return the value of the one assignment to a variable."""
    found = [n.value for n in nodes_of(function) if isinstance(n, cst.Assign) and code(n.targets[0].target) == name]
    return found[0] if len(found) == 1 else None


def is_column(text: KernelText, loop: cst.For, keys: str) -> bool:
    """Tell whether `keys` move with the loop."""
    variable = code(loop.target)
    if variable in keys.replace("(", " ").replace(")", " ").split():
        return True
    value = definition(text.function, keys) if keys.isidentifier() else None
    return value is not None and any(isinstance(n, cst.Name) and n.value == variable for n in (value, *nodes_of(value)))


def steps_by(text: KernelText, loop: cst.For, keys: str, step: str) -> bool:
    """Tell whether the keys of a round are `start`, `start + 1`, … below `start + step`."""
    variable = code(loop.target)
    value = definition(text.function, keys) if keys.isidentifier() else None
    words = code(value) if value is not None else keys
    left, _, right = words.replace(" ", "").partition("+")
    if left != variable:
        left, right = right, left
    if left != variable:
        return False
    whole = f"{text.tl}.arange(0,{step})"
    lanes = definition(text.function, right) if right.isidentifier() else None
    return right == whole or (lanes is not None and code(lanes).replace(" ", "") == whole)


def split_at(
    text: KernelText,
    loop: cst.For,
    end: str,
    comment: str,
    masks: Sequence[cst.BaseStatement],
    *,
    below: tuple[str, str] = ("", ""),
) -> cst.FunctionDef:
    """Return the kernel with a loop in two: rounds before the one that `end` lies in without `masks`, then the others.

    `end` is a number of elements that is not above the loop's end; `comment` says of what the first rounds are free.
    `below`: keys and a length that `end` is not above; loads of the first rounds do not compare them.
    """
    assert isinstance(loop.iter, cst.Call)
    start, stop, step = (a.value for a in loop.iter.args[:3])
    name = text.fresh("full_end", "unmasked_end")
    line = line_of(f"{name} = {end} // {code(grouped(step))} * {code(grouped(step))}")
    said = cst.EmptyLine(comment=cst.Comment(f"# {comment}"))
    line = line.with_changes(leading_lines=[*loop.leading_lines, said])
    before = loop.with_changes(
        leading_lines=(),
        iter=_with_bounds(loop.iter, start, cst.Name(name)),
        body=_unguarded(_without(loop, masks, text.tl), *below, text.tl),
    )
    behind = loop.with_changes(leading_lines=(), iter=_with_bounds(loop.iter, cst.Name(name), stop))
    body = list(text.function.body.body)
    at = body.index(loop)
    body[at : at + 1] = [line, before, behind]
    return text.with_body(body)


def _unguarded(body: cst.BaseSuite, keys: str, length: str, tl: str) -> cst.BaseSuite:
    """Return a loop's body whose loads do not compare `keys` with `length`."""
    made: list[tuple[cst.CSTNode, Replacement]] = []
    for node in nodes_of(body) if length else ():
        if not isinstance(node, cst.Call) or name_of(node, tl) != "load":
            continue
        mask = argument(node, "load", "mask")
        parts = list(terms(mask.value)) if mask is not None else []
        rest = [part for part in parts if bound(part, keys) != length]
        if mask is None or len(rest) == len(parts):
            continue
        if rest:
            words = " & ".join(code(part) for part in (rest if rest[1:] else [rest[0].with_changes(lpar=(), rpar=())]))
            kept = [a.with_changes(value=cst.parse_expression(words)) if a is mask else a for a in node.args]
        else:
            gone = (mask, argument(node, "load", "other"))
            kept = [a for a in node.args if a not in gone]
            if any(a.keyword is None for a in node.args[1:] if a not in gone):
                continue  # another argument is told by its place
            kept[-1] = kept[-1].with_changes(comma=node.args[-1].comma)
        made.append((node, node.with_changes(args=kept)))
    new = replaced_in(body, made)
    assert isinstance(new, cst.BaseSuite)
    return new


def _with_bounds(call: cst.Call, start: cst.BaseExpression, stop: cst.BaseExpression) -> cst.Call:
    first, second, *rest = call.args
    return call.with_changes(args=[first.with_changes(value=start), second.with_changes(value=stop), *rest])


def _without(loop: cst.For, masks: Sequence[cst.BaseStatement], tl: str) -> cst.BaseSuite:
    """Return the loop's body without the masks, and without what is computed for the masks alone."""
    kept: Sequence[cst.BaseStatement] = [s for s in loop.body.body if s not in masks]  # type: ignore[misc]
    for mask in masks:
        condition = applied(mask, tl)
        name = condition.value if isinstance(condition, cst.Name) else ""
        others = sum(isinstance(n, cst.Name) and n.value == name for s in kept for n in nodes_of(s))
        if others == 1:
            kept = [s for s in kept if not _assigns(s, name)]
    return loop.body.with_changes(body=kept)


def _assigns(statement: cst.BaseStatement, name: str) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Assign)
        and code(statement.body[0].targets[0].target) == name
    )
