"""Comments that state the old tile."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Sequence

from tritonforge.domain.source import Edit
from tritonforge.rewrite.text import Source


def update_comments(source: Source, host: ast.AST | None, tiles: Sequence[tuple[int, int]]) -> tuple[Edit, ...]:
    """Return edits of comments in the host function that spell the old tile out, as `32 × 32` or `32x32x64`.

    `tiles` are (old, new) in the order of the kernel's parameters, the axes of the grid first. A comment is edited only
    where it names exactly the old extents in that order, joined by `×`, `x` or `*`, and nothing else can be meant;
    any other comment is its author's, and stays.
    """
    if not isinstance(host, ast.FunctionDef | ast.AsyncFunctionDef) or len(tiles) < 2:
        return ()
    start, end = source.span(host)
    found: list[Edit] = []
    for count in (len(tiles), 2):
        pattern = re.compile(
            r"(?<![\w.×*])"
            + r"(\s*[×x*]\s*)".join(str(old) for old, _ in tiles[:count])
            + r"(?!\s*[×x*]\s*\d)(?![\w.])"
        )
        for kind, at, _, text in source.tokens_between(start, end):
            if kind == tokenize.COMMENT:
                found.extend(_edits(source, at, pattern, text, [new for _, new in tiles[:count]]))
        if count == 2:
            break
    return tuple(dict.fromkeys(e for e in found if source.text[e.start : e.end] != e.text))


def _edits(source: Source, at: int, pattern: re.Pattern[str], text: str, new: list[int]) -> list[Edit]:
    out = []
    for match in pattern.finditer(text):
        joins = [*match.groups(), ""]
        replacement = "".join(f"{value}{join}" for value, join in zip(new, joins, strict=True))
        out.append(Edit(source.file, at + match.start(), at + match.end(), replacement))
    return out
