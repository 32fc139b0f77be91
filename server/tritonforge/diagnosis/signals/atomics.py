"""Atomics that queue up behind each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric, samples_on
from tritonforge.diagnosis.facts import floor, traffic
from tritonforge.domain.kernel import Operation

_GOPS = 40.0
"""Atomic lane-operations per nanosecond that L2 retires when programs share addresses.

Derived from a column sum on an H200: 8.4 million float additions onto 8,192 addresses added 195 µs to a 62 µs read.
"""
_SAME_ADDRESS_NS = 0.6
"""Nanoseconds per atomic on one and the same address, about one L2 clock."""
_CROWDED = 32
_FEW_PER_ADDRESS = 4
_FEW_WAIT, _MOST_WAIT = 0.2, 0.5
"""Shares of samples on atomics below which they do not matter, and from which they decide."""
_FULL = 0.7


@dataclass(frozen=True)
class Contention:
    """`operations` atomics of a launch onto `addresses`, their time in µs, and `floor_us` for everything else.

    `waiting` is the share (0–1) of stall samples on the lines with atomics, where there are samples; the figures of the
    model may then be missing.
    """

    atomic: Operation
    operations: float | None
    addresses: float | None
    atomics_us: float | None
    floor_us: float | None
    waiting: float | None = None

    @property
    def per_address(self) -> float | None:
        """Atomics per address when spread evenly."""
        return self.operations / self.addresses if self.addresses and self.operations else None


def contention(case: Case) -> Contention | None:
    """Judge whether atomics take longer than the launch's other work; many per address makes them queue.

    Samples of the hardware decide where they are clear: warps that wait at the atomics, or do not.
    """
    if not case.kernel.atomics:
        return None
    modelled = _modelled(case)
    waiting = samples_on(case, (atomic.range for atomic in case.kernel.atomics))
    if waiting is None:
        return modelled
    if waiting < _FEW_WAIT or is_busy_with_memory(case):
        return None
    if modelled is not None:
        return replace(modelled, waiting=waiting)
    if waiting < _MOST_WAIT or _is_spread(case):
        return None
    known = traffic(case)
    return Contention(
        case.kernel.atomics[0], known.atomics if known is not None else None, _addresses(case), None, None, waiting
    )


def is_busy_with_memory(case: Case) -> bool:
    """Tell whether DRAM is counted near its peak, so that nothing behind it can be what holds the launch back."""
    return (metric(case, "dram_throughput") or 0.0) >= _FULL


def _is_spread(case: Case) -> bool:
    """Whether the compiled launch is known to hit each address only a few times."""
    known, addresses = traffic(case), _addresses(case)
    return known is not None and bool(addresses) and known.atomics / (addresses or 1.0) < _FEW_PER_ADDRESS


def _modelled(case: Case) -> Contention | None:
    known, least = traffic(case), floor(case)
    if known is None or least is None or known.atomics <= 0:
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
