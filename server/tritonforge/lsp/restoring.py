"""A suggestion that an earlier server offered, found again in the store while the source is what it was made for."""

from __future__ import annotations

import re

from tritonforge.backend.facts import state_of
from tritonforge.domain.candidate import Suggestion
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import apply_edits
from tritonforge.store import Store
from tritonforge.store.keys import text_hash

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def search_of(store: Store, kernel: Kernel, text: str) -> OptimizeResult | None:
    """Return the newest search for a kernel as it stands in `text`, if its suggestion can be applied.

    None, too, when it was turned down. Blocks on the disk.
    """
    kept = store.tunings_for(kernel.file, kernel.name)
    newest = next((one for one in kept if state_of(one.kernel) == state_of(kernel)), None)
    if newest is None or newest.best is None or not still_fits(newest.best, kernel, text):
        return None
    return None if text_hash(newest.best.diff) in store.turned_down(kernel.file, kernel.name) else newest


def still_fits(suggestion: Suggestion, kernel: Kernel, text: str) -> bool:
    """Tell whether a verified suggestion's edits do to `text` what its diff shows.

    They are offsets, the text that they speak of is kept nowhere, and a kernel's hashes see neither lines nor offsets:
    the diff does, on both sides of the edits.
    """
    trial = suggestion.trial
    if trial.verdict is None or not trial.verdict.accepted:
        return False
    edits = trial.candidate.edits
    if not edits or any(edit.file != kernel.file or edit.end > len(text) for edit in edits):
        return False
    return _shows(suggestion.diff, text, apply_edits(text, edits))


def _shows(diff: str, before: str, after: str) -> bool:
    """Tell whether every line of a unified diff of one file stands where it says in its two texts."""
    old, new = before.split("\n"), after.split("\n")
    at_old = at_new = None
    for line in diff.split("\n"):
        hunk = _HUNK.match(line)
        if hunk:
            at_old, at_new = int(hunk[1]) - 1, int(hunk[2]) - 1
        elif at_old is not None and at_new is not None and line[:1] in (" ", "-", "+"):
            if line[0] != "+":
                if at_old >= len(old) or old[at_old] != line[1:]:
                    return False
                at_old += 1
            if line[0] != "-":
                if at_new >= len(new) or new[at_new] != line[1:]:
                    return False
                at_new += 1
    return at_old is not None
