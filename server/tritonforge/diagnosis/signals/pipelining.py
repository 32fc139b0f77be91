"""Loops that load, wait, and compute, one after the other, where copies could run ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import waits_for_memory
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.pace import pace
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline
from tritonforge.domain.blocks import Loop

_ROUNDS = 8
"""Iterations from which running ahead pays."""
_HIDES = 16
"""Warps on an SM from which other programs hide the waiting, where that is not counted."""


@dataclass(frozen=True)
class Unpipelined:
    """`loop` waits for its own loads; `why` as far as it can be told. `waiting`: counted share of stalls for memory."""

    loop: Loop
    why: Literal["stages", "while", "narrow", "unknown"]
    waiting: float | None


def unpipelined(case: Case) -> Unpipelined | None:
    """Return the loop with dots whose operands are waited for, the one with the most iterations.

    Loops without a dot are left out: Triton does not pipeline them by itself, and many warps hide their latency. Silent
    where memory bandwidth sets the pace, where many warps are resident, and on GPUs without asynchronous copies.
    """
    compiled = case.compiled
    if compiled is None or not compiled.loops or not _can_copy(compiled.arch):
        return None
    # The model lets loads and dots overlap, which is what is missing here: only a measurement puts it at the roofline.
    if is_measured_near_roofline(case) or launch_bound(case) is not None:
        return None
    if pace(case) not in {"latency", "tensor", "l2", None}:
        return None
    waiting = waits_for_memory(case) if case.counters is not None else None
    warps = compiled.occupancy.warps_per_sm if compiled.occupancy is not None else 0
    if waiting is None and warps > _HIDES:
        return None
    found = [
        loop
        for loop in compiled.loops
        if loop.dots and loop.waits_for_loads and loop.loads and (loop.trips is None or loop.trips >= _ROUNDS)
    ]
    if not found:
        return None
    loop = max(found, key=lambda one: (one.trips or 0.0, one.loads))
    return Unpipelined(loop, _why(case, loop), waiting)


def _can_copy(arch: str) -> bool:
    digits = arch.removeprefix("sm_").rstrip("af")
    return arch.startswith("sm_") and digits.isdigit() and int(digits) >= 80


def _why(case: Case, loop: Loop) -> Literal["stages", "while", "narrow", "unknown"]:
    if loop.kind == "while":
        return "while"
    if loop.stages_asked is not None and loop.stages_asked <= 1:
        return "stages"
    accesses = case.compiled.accesses if case.compiled is not None else None
    own = [a for a in accesses or () if a.loop == loop.line and a.kind == "load" and a.lane_bytes is not None]
    return "narrow" if own and all((a.lane_bytes or 0) < 4 for a in own) else "unknown"
