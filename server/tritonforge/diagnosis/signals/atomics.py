"""Atomics that queue up behind each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric, samples_on
from tritonforge.diagnosis.facts import WARP_LANES, floor, traffic
from tritonforge.domain.blocks import Atomic
from tritonforge.domain.kernel import Operation

_ORDERED_GOPS = 40.0
"""Lane-operations per nanosecond of atomics that order memory, each between two fences, when programs share addresses.

Derived from a column sum on an H200: 8.4 million float additions onto 8,192 addresses added 195 µs to a 62 µs read.
"""
_RELAXED_GOPS = 1300.0
"""Element-operations per nanosecond of relaxed atomics, which pass without fences.

From the counters of a normalisation's backward pass on an H200: 33.5 million float additions, four to a lane, kept L2's
atomic units 27 % busy for 96 µs.
"""
_FENCES_US = 2.0
"""Of an atomic that orders memory: the fences before and behind it (`prediction.parts.FENCE_US` each)."""
_SAME_ADDRESS_NS = 0.6
"""Nanoseconds per atomic on one and the same address, about one L2 clock."""
_CROWDED = 32
_UNSEEN = 2.0
"""Times the launch's other work from which atomics matter that no warp waits for: L2 handles them besides."""
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
    addresses = _addresses(case)
    per_address = known.atomics / addresses if addresses else inf
    waited = _is_waited_for(case)
    atomics_us = _time_us(case, known.atomics, per_address, waited=waited)
    others_us = max(least.time_us, _others_us(case))
    if per_address < _CROWDED or atomics_us < (1.0 if waited else _UNSEEN) * others_us:
        return None
    return Contention(case.kernel.atomics[0], known.atomics, addresses, atomics_us, least.time_us)


def _atomics(case: Case) -> tuple[Atomic, ...]:
    return (case.compiled.atomics if case.compiled is not None else None) or ()


def _is_waited_for(case: Case) -> bool:
    """Whether an atomic orders memory or returns something that is used; as long as nothing is known, it does."""
    atomics = _atomics(case)
    return not atomics or any(one.ordering != "relaxed" or one.result_used is not False for one in atomics)


def _time_us(case: Case, operations: float, per_address: float, *, waited: bool) -> float:
    """The longest of what atomics are held up by: throughput, the queue at one address, fences."""
    issued = _issued(case) or operations
    # One of a warp's lanes adds for all where the compiler knows that they meet.
    met = _lanes_meet(case)
    queue = 0.0 if per_address == inf else per_address * (issued / WARP_LANES / operations if met else 1.0)
    throughput = min(issued, operations) / _ORDERED_GOPS if waited else operations / _RELAXED_GOPS
    return max((throughput / WARP_LANES if met else throughput) / 1e3, queue * _SAME_ADDRESS_NS / 1e3, _fences_us(case))


def _issued(case: Case) -> float:
    """Return how many lanes the launch's atomic instructions have: fewer than elements where one adds several."""
    compiled, programs = case.compiled, case.programs
    if compiled is None or compiled.instructions is None or not programs:
        return 0.0
    warps = sum((line.executed or {}).get("atomic", 0.0) for line in compiled.instructions.values())
    return warps * WARP_LANES * programs


def _lanes_meet(case: Case) -> bool:
    """Whether all atomics are additions of integers to an address that all lanes share: a warp adds up first."""
    atomics = _atomics(case)
    return bool(atomics) and all(a.operation == "add" and a.shape and a.distinct == 1 for a in atomics)


def _fences_us(case: Case) -> float:
    """Return what fences take: of each ordered atomic two, one after the other, in every round of programs."""
    ordered = sum(one.executions or 1.0 for one in _atomics(case) if one.ordering not in {None, "relaxed"})
    return ordered * _FENCES_US * _rounds(case)


def _rounds(case: Case) -> int:
    compiled = case.compiled
    occupancy = compiled.occupancy if compiled is not None else None
    slots = case.gpu.sms * occupancy.programs_per_sm if occupancy is not None and case.gpu is not None else 0
    return ceil((case.programs or 1) / slots) if slots else 1


def _others_us(case: Case) -> float:
    """Return the longest modelled part of the launch that keeps a unit busy, atomics apart; 0 where none is known.

    What a lone program waits for is no such part: others run meanwhile, and its fences are among it.
    """
    parts = case.prediction.parts if case.prediction is not None else {}
    return max((us for name, us in parts.items() if name not in {"atomic", "latency", "launch"}), default=0.0)


def _addresses(case: Case) -> float | None:
    """How many elements the atomics of the busiest line are spread over."""
    work = case.compiled.work if case.compiled is not None else None
    lines = [w for w in work.lines.values() if w.atomic_ops and w.atomic_targets] if work is not None else []
    return max(lines, key=lambda w: w.atomic_ops / w.atomic_targets).atomic_targets if lines else None
