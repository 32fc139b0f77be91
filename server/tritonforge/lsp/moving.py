"""Where lines and edits of an earlier text are in a later one."""

from __future__ import annotations

import bisect
import difflib
from functools import lru_cache

from tritonforge.domain.source import Edit
from tritonforge.lsp.positions import PositionedText, lines_of

_MOST = 4000
"""Lines of the changed middle above which it is taken as rewritten, rather than spending a second on matching it."""


@lru_cache(maxsize=64)
def line_map(before: str, after: str) -> dict[int, int]:
    """Map each unchanged line of `before` (from 0) to its line of `after`."""
    old, new = lines_of(before), lines_of(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    found = {n: n for n in range(head)}
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if middle_old and middle_new and len(middle_old) + len(middle_new) <= _MOST:
        for block in difflib.SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_matching_blocks():
            found |= {head + block.a + n: head + block.b + n for n in range(block.size)}
    shift = len(new) - len(old)
    return found | {n: n + shift for n in range(len(old) - tail, len(old))}


def moved_line(line: int, before: str, after: str) -> int | None:
    """Return where line `line` (from 1) of `before` is in `after`, None when it was changed or removed."""
    if before == after:
        return line
    found = line_map(before, after).get(line - 1)
    return None if found is None else found + 1


def moved_edits(edits: tuple[Edit, ...], before: str, after: str) -> tuple[Edit, ...] | None:
    """Return edits of `before` as edits of `after`; None when a line that one of them touches has changed."""
    if before == after:
        return edits
    lines = line_map(before, after)
    old, new = PositionedText(before).starts, PositionedText(after).starts
    moved = []
    for edit in edits:
        first, last = bisect.bisect_right(old, edit.start) - 1, bisect.bisect_right(old, edit.end) - 1
        if any(n not in lines for n in range(first, last + 1)):
            return None
        shift = new[lines[first]] - old[first]
        if any(new[lines[n]] - old[n] != shift for n in range(first, last + 1)):
            return None
        moved.append(Edit(edit.file, edit.start + shift, edit.end + shift, edit.text))
    return tuple(moved)
