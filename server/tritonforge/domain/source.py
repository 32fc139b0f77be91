"""Places in source text: positions, ranges, edits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text file: line and column, both counted from 1, columns in code points."""

    line: int
    column: int


@dataclass(frozen=True, order=True)
class Range:
    """A half-open stretch of text from `start` up to, not including, `end`."""

    start: Position
    end: Position

    @classmethod
    def of(cls, line: int, column: int, end_line: int, end_column: int) -> Range:
        """Build a range from its four 1-based numbers."""
        return cls(Position(line, column), Position(end_line, end_column))

    def contains(self, position: Position) -> bool:
        """Tell whether `position` lies in this range (its end excluded)."""
        return self.start <= position < self.end


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the code points `start` up to `end` (0-based offsets into `file` as it was read) by `text`.

    Edits of one file never overlap. `file` is workspace-relative, with `/`.
    """

    file: str
    start: int
    end: int
    text: str


def apply_edits(text: str, edits: tuple[Edit, ...]) -> str:
    """Return `text` with `edits` (all of one file) applied.

    Raises:
        ValueError: when two edits overlap or one lies outside the text.
    """
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at or edit.end < edit.start or edit.end > len(text):
            raise ValueError(f"edit {edit.start}..{edit.end} overlaps another or leaves the text")
        parts.append(text[at : edit.start])
        parts.append(edit.text)
        at = edit.end
    parts.append(text[at:])
    return "".join(parts)
