"""Calls that an edit has made too long for their line, spread over several as formatters do it."""

from __future__ import annotations

import ast

from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.text import Source

LONGEST = 120
"""Columns of a line, about what most projects allow."""

_DEPTH = 3
"""How many calls within each other are spread."""


def fitted(before: str, after: str) -> str:
    """Return `after` with calls on lines longer than `LONGEST` spread out, where `before` had no such lines."""
    had = set(before.splitlines())
    for _ in range(_DEPTH):
        if all(len(line) <= LONGEST or line in had for line in after.splitlines()):
            break
        after = _once_more(after, had)
    return after


def _once_more(after: str, had: set[str]) -> str:
    """Return `after` with the outermost calls on its long lines spread out that are not yet."""
    source = Source("", after)
    edits = []
    done: set[int] = set()
    # Outermost calls first: `ast.walk` goes level by level.
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not _can_be_spread(node):
            continue
        lines = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        long = any(len(source.line_text(i)) > LONGEST and source.line_text(i) not in had for i in lines)
        if long and not lines & done:
            text = _spread(source, node)
            if text not in {None, source.segment(node)}:
                assert text is not None
                done |= lines
                edits.append(source.replace(node, text))
    return apply_edits(after, tuple(edits))


def _can_be_spread(call: ast.Call) -> bool:
    """Tell whether a call has several arguments, or one that is a call with several, and is of a plain name."""
    items = [*call.args, *(k.value for k in call.keywords)]
    if len(items) != 1:
        return len(items) > 1
    plain = not any(isinstance(n, ast.Call) for n in ast.walk(call.func))
    return plain and isinstance(items[0], ast.Call) and len(items[0].args) + len(items[0].keywords) > 1


def _spread(source: Source, call: ast.Call) -> str | None:
    """Return a call with all arguments on a line of their own, or, where that is too long, one on each."""
    whole = source.segment(call)
    last = source.line_text(call.end_lineno or call.lineno)
    if "#" in whole or last.rstrip().endswith(("# fmt: skip", "# noqa")):
        return None
    lead = source.line_text(call.lineno)
    indent = lead[: len(lead) - len(lead.lstrip())]
    items: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    words = [source.segment(item) for item in sorted(items, key=source.span)]
    if any("\n" in w or "\r" in w for w in words):
        return None
    head = f"{source.segment(call.func)}("
    newline = source.newline
    one = f"{indent}    {', '.join(words)}"
    if len(one) <= LONGEST:
        return f"{head}{newline}{one}{newline}{indent})"
    lines = "".join(f"{indent}    {word},{newline}" for word in words)
    return f"{head}{newline}{lines}{indent})"
