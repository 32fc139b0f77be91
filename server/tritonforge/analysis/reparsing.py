"""Parsing a file again after an edit: the statements that the edit did not touch are taken over, moved to their lines.

What is parsed anew is the changed lines with the top-level statements around them. That these parse by themselves, from
one statement's end to another's start, makes the whole what the parser would make of it. When they do not, the file is
broken there, or a string that begins there swallows what follows. Where that makes a whole file, everything is parsed;
where it does not, somebody is typing a docstring, and what stands below is what it was.
"""

from __future__ import annotations

import ast
import bisect
import io
import tokenize
from collections.abc import Iterable
from typing import Any

from tritonforge.analysis.parsing import Parsed, ParseFailure, cannot_parse, parse_lines


def block_ends(body: list[ast.stmt], count: int) -> list[int]:
    """Return the last line (from 1) of each block of a file of `count` lines, blocks covering all of it.

    A block is a top-level statement with the comments and blanks above it; statements that share a line are one.
    """
    ends: list[int] = []
    for statement in body:
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        last = statement.end_lineno or statement.lineno
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], last)
        else:
            ends.append(last)
    if not ends or ends[-1] < count:
        ends.append(count)
    return ends


def reparse(before: Parsed, written: list[str]) -> Parsed | None:
    """Parse `written`, most of which is as it was in `before`, whose tree is used up; None when all must be parsed."""
    tree = before.tree
    old = before.written
    if tree is None or not tree.body:
        return None
    head = _common(old, written)
    tail = min(_common(old[::-1], written[::-1]), min(len(old), len(written)) - head)
    ends = block_ends(tree.body, len(old))
    starts = [0, *ends[:-1]]  # indexes, from 0
    changed = [head - 1, len(old) - tail - 1]
    if before.failure is not None:
        lines_of = enumerate(zip(old, before.lines, strict=True))
        broken = [n for n, (line, parsed) in lines_of if line is not parsed and line != parsed]
        changed += [broken[0], broken[-1], before.failure.line - 1] if broken else [0, len(old) - 1]
    # The statement before may go on in what was changed (an indented line, an `else`).
    first = max(_block_of(max(min(changed), 0), ends) - 1, 0)
    last = _block_of(min(max(changed), len(old) - 1), ends)
    for further in (0, 1):
        upto = min(last + further, len(ends) - 1)
        region = (starts[first], ends[upto])
        if 2 * (region[1] - region[0]) > len(old) and len(old) > 1:
            return None
        lines = written[region[0] : len(written) - (len(old) - region[1])]
        found = parse_lines(lines, region[0])
        if found.failure is None:
            return _spliced(before, written, region, found)
        if found.failure.message.startswith("unterminated triple"):
            break
    if found.tree is not None and found.failure is not None and _leaves_a_string_open(lines, found.failure):
        if not cannot_parse(written[region[0] :], len(lines)):
            return None
        # The string would swallow the statement below, too, if that were taken along.
        below = (_span(statement)[0] for statement in tree.body)
        region = (region[0], min((start for start in below if start > max(changed)), default=len(old)))
        found = parse_lines(written[region[0] : len(written) - (len(old) - region[1])], region[0])
    return _spliced(before, written, region, found) if found.tree is not None else None


def _spliced(before: Parsed, written: list[str], region: tuple[int, int], found: Parsed) -> Parsed:
    """Put newly parsed statements in place of those of a region of the old lines (indexes, half-open)."""
    assert before.tree is not None
    assert found.tree is not None
    by = len(written) - len(before.written)
    above: list[ast.stmt] = []
    inside: list[ast.stmt] = []
    below: list[ast.stmt] = []
    for statement in before.tree.body:
        if (statement.end_lineno or 0) <= region[0]:
            above.append(statement)
        elif statement.lineno > region[1]:
            below.append(statement)
        else:
            inside.append(statement)
    lines = [*before.lines[: region[0]], *found.lines, *before.lines[region[1] :]]
    now = Parsed(before.tree, found.failure, written, lines, before.index, before.places, before.kernels)
    first, last = _same(before, inside, now, found.tree.body)
    taken_over = inside[len(inside) - last :]
    if by:
        _move([*taken_over, *below], by, now.places)
    body = found.tree.body
    before.tree.body = [*above, *inside[:first], *body[first : len(body) - last], *taken_over, *below]
    for gone in inside[first : len(inside) - last]:
        now.places.pop(id(gone), None)
    return now


def _same(before: Parsed, old: list[ast.stmt], now: Parsed, new: list[ast.stmt]) -> tuple[int, int]:
    """Return how many of the first, and of the last, statements of a region stand there as they did.

    Their lines are the same, as written and as parsed, and so are the lines between the first and what is above.
    """
    by = len(now.written) - len(before.written)

    def same(then: ast.stmt, one: ast.stmt, by: int) -> bool:
        start, end = _span(then)
        return (
            _span(one) == (start + by, end + by)
            and type(then) is type(one)
            and then.col_offset == one.col_offset
            and then.end_col_offset == one.end_col_offset
            and before.written[start:end] == now.written[start + by : end + by]
            and before.lines[start:end] == now.lines[start + by : end + by]
        )

    most = min(len(old), len(new))
    first = next((n for n in range(most) if not same(old[n], new[n], 0)), most)
    most -= first
    last = next((n for n in range(most) if not same(old[-1 - n], new[-1 - n], by)), most)
    return first, last


def _span(statement: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement with its decorators (indexes, half-open)."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    return first - 1, statement.end_lineno or statement.lineno


def _move(statements: Iterable[ast.stmt], by: int, places: dict[int, list[dict[str, Any]]]) -> None:
    """Move statements by some lines; `places` keeps what of each has a line, for the next time."""
    for statement in statements:
        held = places.get(id(statement))
        if held is None:
            held = places[id(statement)] = _placed(statement)
        for one in held:
            one["lineno"] += by
            one["end_lineno"] += by


def _placed(statement: ast.stmt) -> list[dict[str, Any]]:
    """Return the attributes of each node of a statement that stands on a line."""
    found: list[dict[str, Any]] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        held = waiting.pop().__dict__
        if "lineno" in held:
            found.append(held)
        for value in held.values():
            if isinstance(value, ast.AST):
                if not isinstance(value, ast.expr_context):
                    waiting.append(value)
            elif type(value) is list:
                waiting += [one for one in value if isinstance(one, ast.AST)]
    return found


def _common(left: list[str], right: list[str]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(left), len(right)))


def _block_of(line: int, ends: list[int]) -> int:
    """Return the block of a line (index from 0)."""
    return min(bisect.bisect_right(ends, line), len(ends) - 1)


def _leaves_a_string_open(lines: list[str], failure: ParseFailure) -> bool:
    """Tell whether a string that begins in these lines, with which the parser fails, goes on below them."""
    if lines and lines[-1].endswith("\\"):
        return True
    if failure.message == "invalid syntax" or failure.message.endswith("was never closed"):
        return False  # of an open string the parser would have told instead, wherever it begins
    try:
        for _ in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            pass
    except tokenize.TokenError as error:
        return "string" in str(error.args[0])
    except SyntaxError:
        return True
    return False
