"""Loops that end where a mask would begin to say no: full blocks apart from the last one.

`for start in range(0, end, BLOCK)` with `end = length // BLOCK * BLOCK` meets `start + tl.arange(0, BLOCK)` below
`length` alone, so that an access there needs no `< length`. `end` may be of the least of several lengths, too.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence


def within_ends(kernel: ast.AST, line: int, masks: Sequence[str | None]) -> bool:
    """Tell whether the loops around a line say all that each of `masks` says, for the variables that they name.

    Args:
        kernel: the function's syntax tree.
        line: that of an access without a mask.
        masks: the texts of the masks that it might have; none of them is no mask.
    """
    assigned = Counter(n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    # What is passed holds another value before it is set, and where it is not.
    passed = {n.arg for n in ast.walk(kernel) if isinstance(n, ast.arg)}
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(kernel)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and assigned[node.targets[0].id] == 1
        and node.targets[0].id not in passed
    }
    known: set[tuple[str, str]] = set()
    for loop in ast.walk(kernel):
        if isinstance(loop, ast.For) and loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0):
            known |= {
                (block, length)
                for length in _lengths(loop, values)
                if not assigned[length] and not _names(loop) & set(assigned)
                for block in _blocks(loop, values, line)
            }
    return bool(masks) and all(mask is not None and _says_only(mask, known) for mask in masks)


def _lengths(loop: ast.For, values: dict[str, ast.expr]) -> Iterator[str]:
    """Yield what a loop's full blocks stay below: `a` and `b` where it ends at `min(a, b) // STEP * STEP`."""
    bounds = _bounds(loop)
    if bounds is None:
        return
    _, end, step = bounds
    value = values.get(end.id, end) if isinstance(end, ast.Name) else end
    match value:
        case ast.BinOp(ast.BinOp(whole, ast.FloorDiv(), divisor), ast.Mult(), factor):
            if ast.unparse(divisor) != step or ast.unparse(factor) != step:
                return
        case _:
            return
    parts = [whole]
    if isinstance(whole, ast.Call) and ast.unparse(whole.func).rpartition(".")[2] in {"min", "minimum"}:
        parts = whole.args if not whole.keywords else []
    yield from (part.id for part in parts if isinstance(part, ast.Name))


def _blocks(loop: ast.For, values: dict[str, ast.expr], line: int) -> Iterator[str]:
    """Yield the variables that hold a round's own lanes at a line, `start + arange(0, STEP)`."""
    bounds = _bounds(loop)
    if bounds is None:
        return
    variable, _, step = bounds
    stored = Counter(n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for node in loop.body:
        if node.lineno >= line:
            break  # the line still has the lanes of the round before
        match node:
            case ast.Assign([ast.Name(name)], ast.BinOp(left, ast.Add(), right)) if stored[name] == 1:
                for one, other in ((left, right), (right, left)):
                    lanes = values.get(other.id, other) if isinstance(other, ast.Name) else other
                    starts = isinstance(one, ast.Name) and one.id == variable and stored[variable] == 1
                    if starts and isinstance(lanes, ast.Call) and _is_arange(lanes, step):
                        yield name


def _bounds(loop: ast.For) -> tuple[str, ast.expr, str] | None:
    """Return variable, end and step of a loop that begins at 0."""
    call, variable = loop.iter, loop.target
    if not isinstance(call, ast.Call) or not isinstance(variable, ast.Name) or len(call.args) != 3:
        return None
    if ast.unparse(call.func).rpartition(".")[2] != "range" or ast.unparse(call.args[0]) != "0":
        return None
    return variable.id, call.args[1], ast.unparse(call.args[2])


def _names(loop: ast.For) -> set[str]:
    """Return the names in a loop's step."""
    call = loop.iter
    step = call.args[-1] if isinstance(call, ast.Call) and call.args else call
    return {node.id for node in ast.walk(step) if isinstance(node, ast.Name)}


def _is_arange(call: ast.Call, step: str) -> bool:
    words = [ast.unparse(arg) for arg in call.args]
    return ast.unparse(call.func).rpartition(".")[2] == "arange" and words == ["0", step] and not call.keywords


def _says_only(mask: str, known: set[tuple[str, str]]) -> bool:
    """Tell whether a mask is made of comparisons that are known to hold."""
    try:
        waiting = [ast.parse(mask.strip(), mode="eval").body]
    except SyntaxError:
        return False
    while waiting:
        node = waiting.pop()
        match node:
            case ast.BinOp(left, ast.BitAnd(), right):
                waiting += [left, right]
            case ast.Compare(block, [ast.Lt()], [ast.Name(length)]):
                name = block.value if isinstance(block, ast.Subscript) else block
                if not isinstance(name, ast.Name) or (name.id, length) not in known:
                    return False
            case _:
                return False
    return True
