"""Loops in which each instruction waits for the one before, with too few warps to fill the gaps."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric, sms, stalled
from tritonforge.diagnosis.signals.pace import has_headroom, pace
from tritonforge.domain.blocks import Loop

_ROUNDS = 64
_ALONE = 2.0
"""Independent instructions in flight below which a loop is a chain."""
_CARRIED = 0.5
"""Share of a pass's chain that the next pass must wait for: unrolling cannot overlap more than the rest."""
_NEEDED = 16
"""Warps on an SM that hide the latency of dependent arithmetic: four schedulers, about four clocks each (NVIDIA, "CUDA
C Programming Guide", multiprocessor level)."""
_WAITS = 0.3
_IDLE = 0.4


@dataclass(frozen=True)
class Chain:
    """`loop` with its `ilp`; `warps` on an SM at once; `carried` the share (0–1) of its chain that passes share.

    `issuing` is the counted share of the cycles in which an SM issues, `waiting` that of samples that wait for results.
    """

    loop: Loop
    ilp: float
    warps: int
    carried: float | None
    issuing: float | None
    waiting: float | None


def chain(case: Case) -> Chain | None:
    """Return the dependent loop that the launch spends its time in; None with enough warps, or where memory decides."""
    compiled = case.compiled
    if compiled is None or not compiled.loops or compiled.occupancy is None or not has_headroom(case):
        return None
    if pace(case) not in {"latency", "alu"}:
        return None
    warps = _resident(case)
    found = [
        (loop.trips, loop.ilp, loop)
        for loop in compiled.loops
        if loop.innermost and loop.ilp is not None and loop.ilp < _ALONE and loop.trips is not None
        and loop.trips >= _ROUNDS and not loop.dots and not (loop.loads + loop.scalar_loads)
    ]  # fmt: skip
    if not found or warps is None or warps >= _NEEDED:
        return None
    _, ilp, loop = max(found, key=lambda one: one[0])
    carried = loop.carried_chain / loop.chain if loop.carried_chain is not None and loop.chain else None
    issuing = metric(case, "issue_active")
    waiting = stalled(case, "wait", "short_scoreboard") if case.counters is not None else None
    if issuing is not None and issuing >= _IDLE:
        return None
    return Chain(loop, ilp, warps, carried, issuing, waiting)


def is_waited_for(seen: Chain) -> bool:
    """Tell whether counters show that dependent results are what warps wait for."""
    return seen.waiting is not None and seen.waiting >= _WAITS


def is_carried(seen: Chain) -> bool:
    """Tell whether most of the chain runs through the iterations, so that unrolling alone does not help."""
    return seen.carried is not None and seen.carried >= _CARRIED


def _resident(case: Case) -> int | None:
    """Warps on an SM: as many as fit, or as the grid has for each."""
    compiled, there = case.compiled, sms(case)
    if compiled is None or compiled.occupancy is None:
        return None
    fits = compiled.occupancy.warps_per_sm
    if case.programs is None or not there:
        return fits
    return min(fits, -(-case.programs // there) * compiled.num_warps)
