"""Where lines and edits of an earlier text are in a later one.

Texts are compared block by block (what begins in the first column), then line by line inside the blocks that changed:
edits in two far places leave everything between them where it is, and a line is looked for in its own function first.
This runs with every keystroke while facts are older than the text, so its time must not depend on what was edited.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tritonforge.domain.source import Edit
from tritonforge.lsp.positions import PositionedText, lines_of

_MOST_PAIRS = 2500
"""Pairs of lines between two places that match, none of them unique, above which they are taken as rewritten: comparing
them all would keep somebody who types waiting."""

Match = tuple[int, int, int]
"""A first index before, one after, and how many are the same from there on."""


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


def _in_blocks(old: Sequence[str], new: Sequence[str], in_old: tuple[int, int], in_new: tuple[int, int]) -> list[Match]:
    """Match blocks of two stretches, then lines of what lies between those that match."""
    if in_old[0] == in_old[1] or in_new[0] == in_new[1]:
        return []
    starts_old, starts_new = _blocks(old, *in_old), _blocks(new, *in_new)
    blocks_old = ["".join(old[a:b]) for a, b in zip(starts_old, [*starts_old[1:], in_old[1]], strict=True)]
    blocks_new = ["".join(new[a:b]) for a, b in zip(starts_new, [*starts_new[1:], in_new[1]], strict=True)]
    ends_old, ends_new = [*starts_old, in_old[1]], [*starts_new, in_new[1]]
    found: list[Match] = []
    done_old = done_new = 0
    for first_old, first_new, count in [*_matching(blocks_old, blocks_new), (len(blocks_old), len(blocks_new), 0)]:
        edges_old, edges_new = ends_old[done_old : first_old + 1], ends_new[done_new : first_new + 1]
        if len(edges_old) != len(edges_new):  # not one for one: looked at as one stretch
            edges_old, edges_new = [edges_old[0], edges_old[-1]], [edges_new[0], edges_new[-1]]
        for (a, a_end), (b, b_end) in zip(pairwise(edges_old), pairwise(edges_new), strict=True):
            found += [(a + i, b + j, length) for i, j, length in _matching(old[a:a_end], new[b:b_end])]
        done_old, done_new = first_old + count, first_new + count
        length = ends_old[done_old] - ends_old[first_old]
        found.append((ends_old[first_old], ends_new[first_new], length))
    return found


def _matching(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Return what two sequences have in common, in order (patience diff).

    What is there once in both is matched first, then what lies between; only what is left of repeated items is compared
    pair by pair. So the time grows little faster than the length, whatever was edited.
    """
    found: list[Match] = []
    waiting = [(0, len(old), 0, len(new))]
    while waiting:
        a, a_end, b, b_end = waiting.pop()
        head = _common(old[a:a_end], new[b:b_end])
        found.append((a, b, head))
        a, b = a + head, b + head
        tail = _common(old[a:a_end][::-1], new[b:b_end][::-1])
        a_end, b_end = a_end - tail, b_end - tail
        found.append((a_end, b_end, tail))
        if a == a_end or b == b_end:
            continue
        anchors = _unique_in_both(old[a:a_end], new[b:b_end])
        if anchors:
            # The next round takes in what stands at an anchor and around it.
            ends = [*((a + i, b + j) for i, j in anchors), (a_end, b_end)]
            for (to_a, to_b), (next_a, next_b) in zip([(a, b), *ends[:-1]], ends, strict=True):
                waiting.append((to_a, next_a, to_b, next_b))
        elif (a_end - a) * (b_end - b) <= _MOST_PAIRS:
            matcher = difflib.SequenceMatcher(None, old[a:a_end], new[b:b_end], autojunk=False)
            found += [(a + match.a, b + match.b, match.size) for match in matcher.get_matching_blocks()]
    return sorted(one for one in found if one[2])


def _unique_in_both(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of items that are there once in both, as many as stand in the same order."""
    once_old, once_new = _once(old), _once(new)
    pairs = [(place, once_new[item]) for item, place in once_old.items() if item in once_new]
    # The longest ascending sequence of second places; each pile's top is the smallest that ends one of that length.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect.bisect_left(tops, place)
        before.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [number]
    chosen: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def _once(items: Sequence[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, item in enumerate(items):
        places[item] = -1 if item in places else place
    return {item: place for item, place in places.items() if place >= 0}


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
