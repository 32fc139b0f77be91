r"""Positions: 1-based lines and columns in code points (ours) ⇄ 0-based units of the client's encoding.

Lines end where the protocol says they do: `\n`, `\r\n` or `\r`, and nowhere else.
"""

from __future__ import annotations

import bisect
import itertools
import re
from functools import cached_property

from lsprotocol import types

from tritonforge.domain.source import Edit, Position, Range
from tritonforge.store.keys import text_hash

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def lines_of(text: str) -> list[str]:
    """Cut a text into its lines, ends included; the last one, which has no end, may be empty."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


class PositionedText:
    """One text with its lines, and positions in it in the client's units."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        """Use `encoding` (`utf-8`, `utf-16` or `utf-32`) for the client's side."""
        self.text = text
        self.encoding = encoding if encoding in _CODECS else "utf-16"

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The offset of each line's first code point."""
        if "\r" in self.text:
            return (0, *(end.end() for end in _LINE_END.finditer(self.text)))
        return tuple(itertools.accumulate([len(line) + 1 for line in self.text.split("\n")], initial=0))[:-1]

    @cached_property
    def content(self) -> str:
        """The text's hash, as results are kept by."""
        return text_hash(self.text)

    def line(self, number: int) -> str:
        """Return line `number` (from 0) without its end; empty beyond the last one."""
        if not 0 <= number < len(self.starts):
            return ""
        last = number + 1 >= len(self.starts)
        whole = self.text[self.starts[number] : None if last else self.starts[number + 1]]
        return whole.rstrip("\r\n") if not last else whole

    def units(self, text: str) -> int:
        """Return how many of the client's units `text` takes."""
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        return len(text.encode(_CODECS[self.encoding], "surrogatepass")) // _UNIT_BYTES[self.encoding]

    def points(self, text: str, units: int) -> int:
        """Return how many code points of `text` the first `units` units hold; all when it has fewer."""
        if self.encoding == "utf-32" or text.isascii():
            return min(max(units, 0), len(text))
        count = 0
        for index, char in enumerate(text):
            if count >= units:
                return index
            count += self.units(char)
        return len(text)

    def offset(self, position: types.Position) -> int:
        """Return the offset in code points of a client's position; one outside the text is moved to the nearest end."""
        if position.line >= len(self.starts):
            return len(self.text)
        return self.starts[position.line] + self.points(self.line(position.line), position.character)

    def at(self, offset: int) -> types.Position:
        """Return the client's position of an offset in code points."""
        number = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        return types.Position(number, self.units(self.text[self.starts[number] : offset]))

    def to_client(self, position: Position) -> types.Position:
        """Turn one of our positions into the client's."""
        line = self.line(position.line - 1)
        return types.Position(position.line - 1, self.units(line[: position.column - 1]))

    def from_client(self, position: types.Position) -> Position:
        """Turn a client's position into ours."""
        return Position(position.line + 1, self.points(self.line(position.line), position.character) + 1)

    def range(self, where: Range) -> types.Range:
        """Turn one of our ranges into the client's."""
        return types.Range(self.to_client(where.start), self.to_client(where.end))

    def whole_line(self, number: int) -> types.Range:
        """Return the range of a line (from 1) from its first character that is no blank to its last."""
        line = self.line(number - 1)
        start = len(line) - len(line.lstrip())
        return self.range(Range.of(number, start + 1, number, len(line.rstrip()) + 1))

    def edit(self, edit: Edit) -> types.TextEdit:
        """Turn one of our edits, of this text, into the client's."""
        return types.TextEdit(types.Range(self.at(edit.start), self.at(edit.end)), edit.text)

    def changed(self, change: types.TextDocumentContentChangeEvent) -> PositionedText:
        """Return the text after a client's change."""
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            return PositionedText(change.text, self.encoding)
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return PositionedText(self.text[:start] + change.text + self.text[max(start, end) :], self.encoding)
