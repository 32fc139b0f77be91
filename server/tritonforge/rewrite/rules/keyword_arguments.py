"""Adding keyword arguments to a call in the style that its author writes calls in."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Sequence

from tritonforge.domain.source import Edit
from tritonforge.rewrite.text import Source

_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT}


def insert_keywords(source: Source, call: ast.Call, keywords: Sequence[tuple[str, str]]) -> tuple[Edit, ...]:
    """Return the edits that append `keywords` (name → text) to the arguments of `call`.

    One argument a line stays one argument a line, a trailing comma stays, a comment behind the last argument stays
    behind it; several arguments in a line get the new ones behind them.
    """
    pairs = [f"{name}={value}" for name, value in keywords]
    return insert_items(source, call, [*call.args, *(k for k in call.keywords)], pairs)


def insert_items(
    source: Source, node: ast.expr, items: Sequence[ast.expr | ast.keyword], new: Sequence[str]
) -> tuple[Edit, ...]:
    """Return the edits that append `new` to the comma-separated `items` of a bracketed expression `node`."""
    close = source.span(node)[1] - 1
    if not items:
        return (source.insert(close, ", ".join(new)),)
    last = max(items, key=lambda item: source.span(item)[1])
    start, end = source.span(last)
    between = source.tokens_between(end, close)
    significant = [t for t in between if t[0] not in _LAYOUT]
    comma = bool(significant) and significant[-1][3] == ","
    # Brackets around the last item lie outside its node.
    behind = significant[-1][2] if significant else end
    if not _own_line(source, start, items):
        text = "".join(f" {item}," for item in new) if comma else "".join(f", {item}" for item in new)
        return (source.insert(behind, text),)
    indent = re.match(r"[ \t\f]*", source.line_text(source.line_of(start)))
    assert indent is not None
    lead = source.newline + indent.group()
    tail = "," if comma else ""
    text = lead + f",{lead}".join(new) + tail
    remark = next((t for t in between if t[0] == tokenize.COMMENT and t[1] >= behind), None)
    if remark is not None and source.line_of(remark[1]) == source.line_of(behind):
        edits = () if comma else (source.insert(behind, ","),)
        return (*edits, source.insert(remark[2], text))
    return (source.insert(behind, text if comma else f",{text}"),)


def prepend_item(source: Source, items: Sequence[ast.expr], new: str) -> Edit:
    """Return the edit that puts `new` in front of the comma-separated `items`, on a line of its own where they are."""
    start = source.span(items[0])[0]
    line = source.line_of(start)
    lead = source.text[source.line_starts[line - 1] : start]
    if lead.strip(" \t\f"):
        return source.insert(start, f"{new}, ")
    return source.insert(start, f"{new},{source.newline}{lead}")


def _own_line(source: Source, start: int, items: Sequence[ast.expr | ast.keyword]) -> bool:
    """Tell whether the item that starts at `start` has its line to itself, and the items before it do not share one."""
    line = source.line_of(start)
    first = source.line_starts[line - 1]
    if source.text[first:start].strip(" \t\f(*"):
        return False
    starts = [source.line_of(source.span(item)[0]) for item in items]
    return len(items) == 1 or len(set(starts)) == len(starts)
