"""What the hardware counted during a launch, in the shares and ratios that causes and rules reason with.

Where a quantity was counted, the count is believed; the compiler's view of it stands in where nothing was counted, and
the source's where nothing was compiled. Each signal asks here first.
"""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.domain.source import Range

SECTOR = 32
"""Bytes that memory hands out at once (an L2 sector)."""
_STARVED_BELOW = 0.6
_MEMORY_WAITS = ("long_scoreboard", "lg_throttle", "drain")


def metric(case: Case, name: str) -> float | None:
    """Return what was counted under `name` (`profiling/nsight/metrics.py`), or None."""
    return case.counters.metrics.get(name) if case.counters is not None else None


def ratio(case: Case, top: str, bottom: str) -> float | None:
    """Return one count over another, or None when either is missing or nothing was counted below."""
    above, below = metric(case, top), metric(case, bottom)
    return above / below if above is not None and below else None


def sms(case: Case) -> int | None:
    """Return how many SMs the GPU has: counted by the report of the launch itself, else of the GPU we judge by."""
    counted = metric(case, "sms")
    if counted:
        return int(counted)
    return case.gpu.sms if case.gpu is not None else None


def samples_on(case: Case, places: Iterable[Range]) -> float | None:
    """Return the share (0–1) of stall samples on the lines of `places`; None without samples."""
    counters = case.counters
    total = sum(line.samples for line in counters.lines.values()) if counters is not None else 0
    if counters is None or not total:
        return None
    wanted = {n for place in places for n in range(place.start.line, place.end.line + 1)}
    return sum(line.samples for n, line in counters.lines.items() if n in wanted) / total


def stalled(case: Case, *reasons: str) -> float:
    """Return the share (0–1) of stall samples that are for one of `reasons`; 0 without samples."""
    stalls = case.counters.stalls if case.counters is not None else {}
    return sum(stalls.get(reason, 0.0) for reason in reasons)


def waits_for_memory(case: Case) -> float:
    """Return the share (0–1) of samples that wait for global or local memory."""
    return stalled(case, *_MEMORY_WAITS)


def busiest(case: Case) -> tuple[str, float] | None:
    """Return the unit whose counted throughput is nearest its peak, with that share; None without counters.

    DRAM comes before L2 where both are busy: everything that memory delivers passes through L2 and is counted there.
    Full issue slots speak for arithmetic only where no unit that instructions are issued to is busy itself.
    """
    named = {
        "dram": metric(case, "dram_throughput"),
        "l2": metric(case, "l2_throughput"),
        "shared": _shared(case),
        "tensor": metric(case, "tensor_active"),
        "special": metric(case, "xu_active"),
        "fp32": _arithmetic(case),
    }
    known = {name: share for name, share in named.items() if share is not None}
    if not known:
        return None
    if known.get("dram", 0.0) >= _STARVED_BELOW:
        return "dram", known["dram"]
    top = max(known, key=lambda name: known[name])
    issue = metric(case, "issue_active")
    if known[top] < _STARVED_BELOW and issue is not None and issue > known[top]:
        return "issue", issue
    return top, known[top]


def is_idle(case: Case) -> bool:
    """Tell whether counters show that no unit is anywhere near its peak: something else holds the launch back."""
    top = busiest(case)
    return top is not None and top[1] < _STARVED_BELOW


def _arithmetic(case: Case) -> float | None:
    """Ordinary arithmetic: the fuller of its two pipelines."""
    known = [share for name in ("fma_active", "alu_active") if (share := metric(case, name)) is not None]
    return max(known) if known else None


def _shared(case: Case) -> float | None:
    """L1's throughput as far as passes through shared memory, rather than global accesses, make it up."""
    throughput, shared = metric(case, "l1_throughput"), metric(case, "shared_wavefronts")
    if throughput is None or shared is None:
        return None
    through_l1 = (metric(case, "global_sectors") or 0.0) / (128 / SECTOR)
    return throughput * shared / (shared + through_l1) if shared + through_l1 > 0 else 0.0
