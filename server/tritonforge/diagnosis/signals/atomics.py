"""Atomics that queue up behind each other."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import floor, traffic
from tritonforge.domain.kernel import Operation

_GOPS = 40.0
"""Atomic lane-operations per nanosecond that L2 retires when programs share addresses.

Derived from a column sum on an H200: 8.4 million float additions onto 8,192 addresses added 195 µs to a 62 µs read.
"""
_SAME_ADDRESS_NS = 0.6
"""Nanoseconds per atomic on one and the same address, about one L2 clock."""
_CROWDED = 32


@dataclass(frozen=True)
class Contention:
    """`operations` atomics of a launch onto `addresses`, their time in µs, and `floor_us` for everything else."""

    atomic: Operation
    operations: float
    addresses: float | None
    atomics_us: float
    floor_us: float

    @property
    def per_address(self) -> float | None:
        """Atomics per address when spread evenly."""
        return self.operations / self.addresses if self.addresses else None


def contention(case: Case) -> Contention | None:
    """Judge whether atomics take longer than the launch's other work; many per address makes them queue."""
    known, least = traffic(case), floor(case)
    if not case.kernel.atomics or known is None or least is None or known.atomics <= 0:
        return None
    atomic = case.kernel.atomics[0]
    addresses = _addresses(case)
    per_address = known.atomics / addresses if addresses else inf
    queue_us = 0.0 if per_address == inf else per_address * _SAME_ADDRESS_NS / 1e3
    atomics_us = max(known.atomics / _GOPS / 1e3, queue_us)
    if per_address < _CROWDED or atomics_us < least.time_us:
        return None
    return Contention(atomic, known.atomics, addresses, atomics_us, least.time_us)


def _addresses(case: Case) -> float | None:
    """How many elements the atomics of the busiest line are spread over."""
    work = case.compiled.work if case.compiled is not None else None
    lines = [w for w in work.lines.values() if w.atomic_ops and w.atomic_targets] if work is not None else []
    return max(lines, key=lambda w: w.atomic_ops / w.atomic_targets).atomic_targets if lines else None
