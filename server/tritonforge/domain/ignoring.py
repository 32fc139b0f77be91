"""What is ignored on purpose: `Ignored`, a finding that somebody silenced, and `Lapsed`, a silencing that ended."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.finding import Finding

IgnoredBy = Literal["comment", "per-file", "setting"]
"""`comment`: `# tritonforge: ignore` in the source. `per-file`: `per-file-ignores`. `setting`: `ignore` or `select`."""


@dataclass(frozen=True)
class Ignored:
    """A finding that is not shown: `where` says what silences it (`kernels.py:12`), `until` up to which day."""

    finding: Finding
    by: IgnoredBy
    where: str
    until: str | None = None


@dataclass(frozen=True)
class Lapsed:
    """A silencing that no longer counts: `what` was silenced (`TF203`, or `everything`) at `where`, `until` that day.

    `reason` says why it no longer counts: its day has passed, or the text after `until` is no day.
    """

    what: str
    where: str
    until: str
    reason: str


def lapsed_because(until: str | None, today: dt.date) -> str:
    """Return why something that is ignored `until` a day is ignored no longer; empty while it still is.

    The day itself still counts. A text that is no day ends the silence at once: better heard than forgotten.
    """
    if until is None:
        return ""
    try:
        last = dt.date.fromisoformat(until)
    except ValueError:
        return "that is no day, written as 2027-03-01"
    return "that day has passed" if today > last else ""
