"""Which line of a TOML text sets what. `tomllib` does not say, and an error without a line is half an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Path = tuple[str | int, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=(.*)$")


@dataclass(frozen=True)
class ValuePlace:
    """Where a value stands: 1-based line and column of its first character, of a string that of its first letter.

    `exact`: the string's text is the file's own, character by character, so that a place in it is a place in the file;
    its later lines begin at column 1 of the file's next lines.
    """

    line: int
    column: int
    exact: bool = False


def index_lines(text: str) -> dict[Path, int]:
    """Map the path of every table and key of `text` to the 1-based line that opens it.

    The entries of `[[name]]` tables have their number in the path: `("launch", 0, "file")`. Keys of inline tables are
    not indexed; `line_of` answers with the line of the table around them.
    """
    index: dict[Path, int] = {}
    for path, number, _ in _entries(text):
        index.setdefault(path, number)
    return index


def index_values(text: str) -> dict[Path, ValuePlace]:
    """Map the path of every key of `text`, as in `index_lines`, to the place of its value."""
    lines = text.splitlines()
    return {path: _value_place(lines, number, column) for path, number, column in _entries(text) if column is not None}


def _entries(text: str) -> Iterator[tuple[Path, int, int | None]]:
    """Yield each table and key with its line and, for a key with a value, the 0-based column where that begins."""
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
                yield table, number, None
                counts[table] = counts.get(table, 0) + 1
            table = _resolve((last,), counts, table[:-1])
            yield table, number, None
        elif assignment := _ASSIGNMENT.match(line):
            parts = _parts(assignment[1])
            for depth in range(1, len(parts)):
                yield (*table, *parts[:depth]), number, None
            value = assignment[2]
            yield (*table, *parts), number, assignment.start(2) + len(value) - len(value.lstrip())
            inside = _unfinished(value)


def _value_place(lines: list[str], number: int, column: int) -> ValuePlace:
    raw = lines[number - 1][column:]
    if raw[:1] not in ("'", '"'):
        return ValuePlace(number, column + 1)
    quote = raw[0] * 3 if raw.startswith(raw[0] * 3) else raw[0]
    body = "\n".join([raw[len(quote) :], *lines[number:]]) if len(quote) == 3 else raw[len(quote) :]
    end = _after_string(body, 0, quote)
    exact = end >= 0 and (quote[0] == "'" or "\\" not in body[:end])
    if len(quote) == 3 and body.startswith("\n"):  # the newline right after the quotes is no part of the string
        return ValuePlace(number + 1, 1, exact)
    return ValuePlace(number, column + 1 + len(quote), exact)


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
