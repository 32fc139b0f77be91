"""A version that a search tried, as it is kept: what it is, what became of it, what was known of it then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.candidate import Trial

Outcome = Literal["compile-error", "refused", "failed", "slower", "kept", "verified", "timed", "unfinished"]
"""`compile-error`, `refused` (by a rule, by the compiler's facts or by the gate) and `failed` (it cannot be timed) are
final. `timed` and `slower` were timed; `verified` passed the gate; `kept` was the best. `unfinished`: the budget ended
first, or nobody asked for it."""


@dataclass(frozen=True)
class TriedVersion:
    """One version of a source and its fate.

    `text`: the hash of all its texts. `structure` and `values` say where it lies in the space that is searched.
    `speedup`: the original's time over its own, and the 95 % interval, measured in the same rounds; None where it was
    not measured. `facts`: registers, spill_bytes, shared_bytes, occupancy of the launch that matters most.
    """

    text: str
    structure: str
    values: Mapping[str, int]
    outcome: Outcome
    trial: Trial
    speedup: tuple[float, float, float] | None = None
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether it need not be tried again."""
        return self.outcome in {"compile-error", "refused", "failed"}
