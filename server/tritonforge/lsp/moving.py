"""Where lines and edits of an earlier text are in a later one.

Texts are compared block by block (what begins in the first column), then line by line inside the blocks that changed:
edits in two far places leave everything between them where it is, and a line is looked for in its own function first.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tritonforge.domain.source import Edit
from tritonforge.lsp.positions import PositionedText, lines_of

_MOST_LINES = 1500
"""Lines of one changed stretch, before and after, above which it is taken as rewritten: matching takes a second."""
_MOST_BLOCKS = 4000


@dataclass(frozen=True)
class LineMap:
    """Where lines (from 0) that did not change are: stretches of old and new first lines, and lengths, in order."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    lengths: tuple[int, ...]

    def get(self, line: int) -> int | None:
        """Return where a line is now, None when it was changed or removed."""
        at = bisect.bisect_right(self.old, line) - 1
        if at < 0 or line >= self.old[at] + self.lengths[at]:
            return None
        return self.new[at] + line - self.old[at]


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(lines_of(text))


@lru_cache(maxsize=64)
def _starts(text: str) -> tuple[int, ...]:
    return PositionedText(text).starts


@lru_cache(maxsize=128)
def line_map(before: str, after: str) -> LineMap:
    """Map each unchanged line of `before` to its line of `after`."""
    old, new = _lines(before), _lines(after)
    found: list[tuple[int, int, int]] = []
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    found.append((0, 0, head))
    middle_old, middle_new = (head, len(old) - tail), (head, len(new) - tail)
    found += _in_blocks(old, new, middle_old, middle_new)
    found.append((middle_old[1], middle_new[1], tail))
    stretches = [one for one in found if one[2]]
    return LineMap(*(tuple(one[n] for one in stretches) for n in range(3)))


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many lines two texts begin with together."""
    most = min(len(left), len(right))
    if left[:most] == right[:most]:
        return most
    return next(n for n in range(most) if left[n] != right[n])


def _in_blocks(
    old: Sequence[str], new: Sequence[str], in_old: tuple[int, int], in_new: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Match blocks of two stretches, then lines of what lies between those that match."""
    if in_old[0] == in_old[1] or in_new[0] == in_new[1]:
        return []
    starts_old, starts_new = _blocks(old, *in_old), _blocks(new, *in_new)
    if len(starts_old) + len(starts_new) > _MOST_BLOCKS:
        return _in_lines(old, new, in_old, in_new)
    blocks_old = ["".join(old[a:b]) for a, b in zip(starts_old, [*starts_old[1:], in_old[1]], strict=True)]
    blocks_new = ["".join(new[a:b]) for a, b in zip(starts_new, [*starts_new[1:], in_new[1]], strict=True)]
    found: list[tuple[int, int, int]] = []
    at_old, at_new = in_old[0], in_new[0]
    for match in difflib.SequenceMatcher(None, blocks_old, blocks_new, autojunk=False).get_matching_blocks():
        to_old = starts_old[match.a] if match.a < len(starts_old) else in_old[1]
        to_new = starts_new[match.b] if match.b < len(starts_new) else in_new[1]
        found += _in_lines(old, new, (at_old, to_old), (at_new, to_new))
        end = match.a + match.size
        at_old = starts_old[end] if end < len(starts_old) else in_old[1]
        at_new = to_new + at_old - to_old
        found.append((to_old, to_new, at_old - to_old))
    return found


def _in_lines(
    old: Sequence[str], new: Sequence[str], in_old: tuple[int, int], in_new: tuple[int, int]
) -> list[tuple[int, int, int]]:
    lines_old, lines_new = old[slice(*in_old)], new[slice(*in_new)]
    if not lines_old or not lines_new or len(lines_old) + len(lines_new) > _MOST_LINES:
        return []
    matches = difflib.SequenceMatcher(None, lines_old, lines_new, autojunk=False).get_matching_blocks()
    return [(in_old[0] + match.a, in_new[0] + match.b, match.size) for match in matches]


def _blocks(lines: Sequence[str], first: int, last: int) -> list[int]:
    """Return where the blocks of a stretch begin: its first line, and each without indentation that is no comment."""
    starts = [n for n in range(first, last) if lines[n][:1] not in "# \t\r\n\f)]}"]
    return starts if starts[:1] == [first] else [first, *starts]


def moved_line(line: int, before: str, after: str) -> int | None:
    """Return where line `line` (from 1) of `before` is in `after`, None when it was changed or removed."""
    if before == after:
        return line
    found = line_map(before, after).get(line - 1)
    return None if found is None else found + 1


@lru_cache(maxsize=128)
def moved_edits(edits: tuple[Edit, ...], before: str, after: str) -> tuple[Edit, ...] | None:
    """Return edits of `before` as edits of `after`; None when a line that one of them touches has changed."""
    if before == after:
        return edits
    lines = line_map(before, after)
    old, new = _starts(before), _starts(after)
    moved = []
    for edit in edits:
        first, last = bisect.bisect_right(old, edit.start) - 1, bisect.bisect_right(old, edit.end) - 1
        places = [lines.get(n) for n in range(first, last + 1)]
        shifts = {new[now] - old[n] if now is not None else None for n, now in enumerate(places, first)}
        shift = next(iter(shifts))
        if shift is None or len(shifts) > 1:
            return None
        moved.append(Edit(edit.file, edit.start + shift, edit.end + shift, edit.text))
    return tuple(moved)
