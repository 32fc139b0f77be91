"""Calls that an edit has made too long for their line, spread over several as formatters do it."""

from __future__ import annotations

import ast

from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.text import Source

LONGEST = 120
"""Columns of a line, about what most projects allow."""


def fitted(before: str, after: str) -> str:
    """Return `after` with calls on lines longer than `LONGEST` spread out, where `before` had no such lines."""
    had = set(before.splitlines())
    if all(len(line) <= LONGEST or line in had for line in after.splitlines()):
        return after
    source = Source("", after)
    edits = []
    done: set[int] = set()
    # Outermost calls first: `ast.walk` goes level by level.
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or len(node.args) + len(node.keywords) < 2:
            continue
        lines = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        long = any(len(source.line_text(i)) > LONGEST and source.line_text(i) not in had for i in lines)
        if long and not lines & done:
            text = _spread(source, node)
            if text is not None:
                done |= lines
                edits.append(source.replace(node, text))
    return apply_edits(after, tuple(edits))


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
