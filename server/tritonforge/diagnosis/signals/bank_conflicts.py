"""Passes through shared memory that conflicts between its banks add."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.domain.kernel import Kernel

_EXCESS = 0.25
_MATTERS = 0.3


@dataclass(frozen=True)
class Conflicts:
    """`wavefronts` counted against `ideal`; `line` has most of the excess (None when no line is known)."""

    wavefronts: float
    ideal: float
    line: int | None

    @property
    def excess(self) -> float:
        """Share (0–1) of the wavefronts that conflicts add."""
        return 1.0 - self.ideal / self.wavefronts


def bank_conflicts(case: Case) -> Conflicts | None:
    """Judge counted wavefronts, where L1 and shared memory are busy enough for them to matter."""
    every, ideal = metric(case, "shared_wavefronts"), metric(case, "ideal_shared_wavefronts")
    if not every or ideal is None or every - ideal < _EXCESS * every:
        return None
    if (metric(case, "l1_throughput") or 0.0) < _MATTERS:
        return None
    return Conflicts(every, ideal, _worst(case, case.kernel))


def _worst(case: Case, kernel: Kernel) -> int | None:
    inside = range(kernel.range.start.line, kernel.range.end.line + 1)
    lines = case.counters.lines if case.counters is not None else {}
    excess = {n: one.wavefronts - one.ideal_wavefronts for n, one in lines.items() if n in inside}
    worst = max(excess, key=lambda n: excess[n], default=None)
    return worst if worst is not None and excess[worst] > 0 else None
