"""Hovers for clients that show plain text only: what our own Markdown says, without its signs."""

from __future__ import annotations

import re

_RULE = re.compile(r"\|?(\s*:?-{3,}:?\s*\|?)+")
_CELL = re.compile(r"(?<!\\)\|")
_EMPHASIS = re.compile(r"(?<!\\)[*`]+")
_ESCAPED = re.compile(r"\\([\\_*`|(])")


def plain(markdown: str) -> str:
    """Return Markdown as `hover` writes it (emphasis, code, tables, rules, escapes) as plain lines."""
    lines: list[str] = []
    for line in markdown.splitlines():
        text = line
        if text.startswith("|"):
            cells = [cell.strip() for cell in _CELL.split(text)[1:-1]]
            if _RULE.fullmatch(text) or not any(cells):
                continue
            text = f"{cells[0]}: {', '.join(cell for cell in cells[1:] if cell)}" if cells[0] else ", ".join(cells[1:])
        elif _RULE.fullmatch(text):
            text = ""
        text = _ESCAPED.sub(r"\1", _EMPHASIS.sub("", text)).replace("&lt;", "<")
        if text or (lines and lines[-1]):
            lines.append(text)
    return "\n".join(lines).strip()
