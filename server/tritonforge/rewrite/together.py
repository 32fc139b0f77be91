"""Which of several edits of one text can be made at once."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.source import Edit


def together(wanted: Sequence[Sequence[Edit]]) -> tuple[tuple[Edit, ...], tuple[int, ...]]:
    """Return the edits that go together, and which of `wanted` are left out for what those before them change.

    Each of `wanted` is taken whole or not at all. What two of them change alike is changed once.
    """
    kept: dict[Edit, None] = {}
    left: list[int] = []
    for index, edits in enumerate(wanted):
        fresh = [edit for edit in edits if edit not in kept]
        if any(_meet(edit, other) for edit in fresh for other in kept):
            left.append(index)
        else:
            kept |= dict.fromkeys(fresh)
    return tuple(kept), tuple(left)


def _meet(one: Edit, other: Edit) -> bool:
    """Tell whether two edits change the same text; two insertions in one place have no order."""
    if one.file != other.file:
        return False
    if one.start == other.start:
        return True
    return one.start < other.end and other.start < one.end
