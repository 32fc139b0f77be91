"""Brief keys: what stands for a launch that was seen again and again, and how they come to be believed."""

from __future__ import annotations

from typing import Any

_TRUSTED_AFTER = 32
"""Launches in a row that a brief key has to stand for before it is believed."""

_MOST = 256
"""Brief keys that are remembered."""

_NONE = -1
"""In place of an index: the key stands for several, or for what is not counted one by one."""


class Trust:
    """Learns which brief keys always stand for the same index into `spool.counts`."""

    def __init__(self) -> None:
        self.trusted: dict[Any, int] = {}
        """Brief key → the only index that launches with it were counted at. Emptied, never replaced."""
        self._seen: dict[Any, list[int]] = {}

    def confirm(self, brief: Any, index: int | None) -> None:
        """Note that a launch with this brief key is counted at `index` by all that is known of it, None for nowhere."""
        at = _NONE if index is None else index
        seen = self._seen.get(brief)
        if seen is None:
            if len(self._seen) < _MOST:
                self._seen[brief] = [at, 1]
        elif seen[0] != at:
            seen[0] = _NONE
            self.trusted.pop(brief, None)
        elif at != _NONE:
            seen[1] += 1
            if seen[1] == _TRUSTED_AFTER:
                self.trusted[brief] = at

    def forget(self) -> None:
        """Believe nothing any more."""
        self.trusted.clear()
        self._seen.clear()
