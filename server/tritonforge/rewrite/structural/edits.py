"""The fewest edits that turn one text into another, so that what a transform left alone stays byte-identical."""

from __future__ import annotations

import difflib

from tritonforge.domain.source import Edit


def minimal_edits(file: str, before: str, after: str) -> tuple[Edit, ...]:
    """Return edits of `before` that give `after`: whole lines where lines changed, trimmed to what differs in them.

    Lines keep their endings, whatever those are. Offsets count code points, as `Edit` does.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    edits = []
    for tag, low, high, new_low, new_high in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            edits.append(trimmed(file, starts[low], "".join(old[low:high]), "".join(new[new_low:new_high])))
    return tuple(edits)


def trimmed(file: str, start: int, old: str, new: str) -> Edit:
    """Return the edit of `old`, which stands at `start`, to `new`, without what both texts begin and end with."""
    limit = min(len(old), len(new))
    head = next((i for i in range(limit) if old[i] != new[i]), limit)
    tail = next((i for i in range(limit - head) if old[-1 - i] != new[-1 - i]), limit - head)
    return Edit(file, start + head, start + len(old) - tail, new[head : len(new) - tail])
