"""Parsing a file again after an edit: the statements that the edit did not touch are taken over, moved to their lines.

What is parsed anew is the changed lines with the top-level statements around them. That these parse by themselves, from
one statement's end to another's start, makes the whole what the parser would make of it. When they do not, the file is
broken there (or a string that begins there swallows what follows: then everything is parsed).
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable

from tritonforge.analysis.parsing import Parsed, parse_lines


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
    changed = [head - 1, min(len(old) - tail, len(old) - 1)]
    if before.failure is not None:
        broken = [n for n, (line, parsed) in enumerate(zip(old, before.lines, strict=True)) if line != parsed]
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
    if found.tree is None or _leaves_a_string_open(lines):
        return None
    return _spliced(before, written, region, found)


def _spliced(before: Parsed, written: list[str], region: tuple[int, int], found: Parsed) -> Parsed:
    """Put newly parsed statements in place of those of a region of the old lines (indexes, half-open)."""
    assert before.tree is not None
    assert found.tree is not None
    by = len(written) - len(before.written)
    body = before.tree.body
    above = [statement for statement in body if (statement.end_lineno or 0) <= region[0]]
    below = [statement for statement in body if statement.lineno > region[1]]
    if by:
        _move(below, by)
    before.tree.body = [*above, *found.tree.body, *below]
    lines = [*before.lines[: region[0]], *found.lines, *before.lines[region[1] :]]
    return Parsed(before.tree, found.failure, written, lines, before.index)


def _move(statements: Iterable[ast.AST], by: int) -> None:
    waiting = list(statements)
    while waiting:
        held = waiting.pop().__dict__
        if "lineno" in held:
            held["lineno"] += by
            held["end_lineno"] += by
        for value in held.values():
            if isinstance(value, ast.AST):
                if not isinstance(value, ast.expr_context):
                    waiting.append(value)
            elif type(value) is list:
                waiting += [one for one in value if isinstance(one, ast.AST)]


def _common(left: list[str], right: list[str]) -> int:
    most = min(len(left), len(right))
    return next((n for n in range(most) if left[n] != right[n]), most)


def _block_of(line: int, ends: list[int]) -> int:
    """Return the block of a line (index from 0)."""
    return next((n for n, end in enumerate(ends) if line < end), len(ends) - 1)


def _leaves_a_string_open(lines: list[str]) -> bool:
    """Tell whether a string that begins in these lines goes on below them."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            pass
    except tokenize.TokenError as error:
        return "string" in str(error.args[0])
    except SyntaxError:
        return True
    return bool(lines) and lines[-1].endswith("\\")
