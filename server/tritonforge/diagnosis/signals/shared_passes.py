"""Whether instructions that go through shared memory, not arithmetic, fill an SM's time."""

from __future__ import annotations

from collections import Counter

from tritonforge.diagnosis.case import Case
from tritonforge.prediction.load import executed_by_line

_SCHEDULERS = 4
_PASSES = 2.0
"""Clocks of one access to shared memory on average: a 128-bit access takes four, a broadcast one."""


def is_mostly_shared(case: Case) -> bool:
    """Tell whether the load-store unit is busier than the schedulers, and mostly with shared memory."""
    compiled = case.compiled
    if compiled is None or compiled.work is None:
        return False
    totals: Counter[str] = Counter()
    for kinds in executed_by_line(compiled, compiled.work).values():
        totals.update(kinds)
    shared = _PASSES * (totals["load_shared"] + totals["store_shared"]) + totals["shuffle"]
    passes = shared + totals["load_global"] + totals["store_global"] + totals["async_copy"]
    return passes > sum(totals.values()) / _SCHEDULERS and shared > passes / 2
