"""Which line of a TOML text sets what. `tomllib` does not say, and an error without a line is half an error."""

from __future__ import annotations

import re
from collections.abc import Mapping

Path = tuple[str | int, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=(.*)$")


def index_lines(text: str) -> dict[Path, int]:
    """Map the path of every table and key of `text` to the 1-based line that opens it.

    The entries of `[[name]]` tables have their number in the path: `("launch", 0, "file")`. Keys of inline tables are
    not indexed; `line_of` answers with the line of the table around them.
    """
    index: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    inside = ""  # the rest of a value that runs over several lines
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            inside = _unfinished(inside + "\n" + line)
        elif header := _HEADER.match(line):
            *outer, last = _parts(header[2])
            table = (*_resolve(tuple(outer), counts), last)
            if header[1] == "[[":
                index.setdefault(table, number)
                counts[table] = counts.get(table, 0) + 1
            table = _resolve((last,), counts, table[:-1])
            index.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            parts = _parts(assignment[1])
            for depth in range(1, len(parts) + 1):
                index.setdefault((*table, *parts[:depth]), number)
            inside = _unfinished(assignment[2])
    return index


def line_of(index: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of `path`, or of the nearest thing around it that has one."""
    for depth in range(len(path), 0, -1):
        if (line := index.get(path[:depth])) is not None:
            return line
    return None


def _resolve(parts: Path, counts: Mapping[Path, int], out: Path = ()) -> Path:
    """Append `parts` to `out`, with the number of the newest entry behind each name that is an array of tables."""
    for part in parts:
        out = (*out, part)
        if out in counts:
            out = (*out, counts[out] - 1)
    return out


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(k[1:-1] if k[0] in "\"'" else k for k in re.findall(_KEY, dotted))


def _unfinished(value: str) -> str:
    """Return `value` when its string, array or inline table goes on in the next line, else ""."""
    depth = 0
    at = 0
    while at < len(value):
        character = value[at]
        if character in "\"'":
            quote = character * 3 if value.startswith(character * 3, at) else character
            at = _after_string(value, at + len(quote), quote)
            if at < 0:
                return value if len(quote) == 3 or depth else ""
            continue
        if character == "#":
            at = value.find("\n", at)
            if at < 0:
                break
        depth += (character in "[{") - (character in "]}")
        at += 1
    return value if depth > 0 else ""


def _after_string(value: str, at: int, quote: str) -> int:
    while at < len(value):
        if value[at] == "\\" and quote[0] == '"':
            at += 2
        elif value.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return -1
