"""Errors of launch specs: each knows the file, the line and the column of the character that is wrong."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import Position


class SpecError(UsageError):
    """A launch spec is wrong at `position` of `file`; `reason` is the sentence without the place."""

    def __init__(self, file: str, position: Position, reason: str, mend: str = "") -> None:
        super().__init__(f"{file}:{position.line}:{position.column}: {reason}", mend)
        self.file = file
        self.position = position
        self.reason = reason


@dataclass(frozen=True)
class Place:
    """Where the text of a spec starts: 1-based line and column in code points.

    Later lines of a text start at column 1 of the file's next lines. Where the text is not the file's own, character
    by character (a TOML string with escapes), `exact` is false and every error points at the start. A text put together
    from several has `pieces`: the offset of each, ascending, and its own place.
    """

    file: str
    text: str
    line: int = 1
    column: int = 1
    exact: bool = True
    pieces: tuple[tuple[int, Place], ...] = ()

    def position(self, offset: int) -> Position:
        """Return the place of the character at `offset` of the text."""
        at = bisect.bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        if at >= 0:
            start, piece = self.pieces[at]
            return piece.position(offset - start)
        if not self.exact:
            return Position(self.line, self.column)
        before = self.text[: max(offset, 0)]
        lines = before.count("\n")
        column = len(before) - before.rfind("\n") if lines else self.column + len(before)
        return Position(self.line + lines, column)

    def error(self, offset: int, reason: str, mend: str = "") -> SpecError:
        """Return the error that points at `offset`."""
        return SpecError(self.file, self.position(offset), reason, mend)


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a sentence that offers the nearest of `known`, or lists them all after `otherwise`."""
    names = list(dict.fromkeys(known))
    same = [name for name in names if name.lower() == word.lower()]
    close = same or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"{otherwise}: {', '.join(names)}." if names else ""
