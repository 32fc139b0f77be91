"""Launches that an edit has made too long for their line, spread over several as formatters do it."""

from __future__ import annotations

import ast

from tritonforge.domain.source import apply_edits
from tritonforge.rewrite.rules.launch_values import LaunchNode, launches_in
from tritonforge.rewrite.scopes import Scopes
from tritonforge.rewrite.text import Source

LONGEST = 120
"""Columns of a line, about what most projects allow."""


def fitted(before: str, after: str) -> str:
    """Return `after` with launches on lines longer than `LONGEST` spread out, where `before` had no such lines."""
    had = set(before.splitlines())
    if all(len(line) <= LONGEST or line in had for line in after.splitlines()):
        return after
    source = Source("", after)
    edits = []
    for launch in launches_in(Scopes(source.tree)):
        lines = range(launch.call.lineno, (launch.call.end_lineno or launch.call.lineno) + 1)
        if any(len(source.line_text(i)) > LONGEST and source.line_text(i) not in had for i in lines):
            text = _spread(source, launch)
            if text is not None:
                edits.append(source.replace(launch.call, text))
    return apply_edits(after, tuple(edits))


def _spread(source: Source, launch: LaunchNode) -> str | None:
    """Return a launch with all arguments on a line of their own, or, where that is too long, one on each."""
    call = launch.call
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
