"""Too few warps on an SM to hide the latency of memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tritonforge.compilation.architectures import architecture, occupancy
from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import is_idle, metric, sms
from tritonforge.diagnosis.facts import num_warps, uses_tensor_cores
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import NEAR_ROOFLINE, standing
from tritonforge.domain.compilation import Compilation, Occupancy, Resources

LOW = 0.3
_BIG_TILE = 128 * 128
_REGISTER_STEP = 8
"""Registers are handed out in steps of 8 per thread."""
_SHARED_STEP = 1024
_Limiter = Literal["registers", "shared-memory", "warps", "programs"]
_LIMITS: dict[_Limiter, str] = {
    "registers": "registers",
    "shared-memory": "shared",
    "warps": "warps",
    "programs": "blocks",
}


@dataclass(frozen=True)
class LowOccupancy:
    """Theoretical occupancy with its limiter, and what one more program per SM would need (None when unknown).

    `achieved` is the counted share of an SM's warps that were resident on average (0–1).
    """

    occupancy: Occupancy
    resources: Resources
    warps: int
    registers_for_next: int | None
    shared_for_next: int | None
    achieved: float | None = None


def low_occupancy(case: Case) -> LowOccupancy | None:
    """Judge whether occupancy is low where that can matter.

    Silent when the grid cannot fill an SM anyway, when the limiter is not a resource of the kernel, for launches near
    their roofline, and for tensor-core kernels with big tiles: they hide latency with asynchronous copies and run well
    with one program per SM.
    """
    now, resources = occupancy_of(case), _resources(case)
    if now is None or resources is None:
        return None
    if now.fraction >= LOW or now.limiter not in {"registers", "shared-memory"}:
        return None
    if _is_big_tensor_kernel(case) or _grid_is_the_limit(case, now) or launch_bound(case) is not None:
        return None
    if case.counters is not None and not is_idle(case):
        return None
    known = standing(case)
    if known is not None and known.fraction >= NEAR_ROOFLINE:
        return None
    registers, shared = _next_step(case.compiled, now) if case.compiled is not None else (None, None)
    return LowOccupancy(now, resources, num_warps(case), registers, shared, metric(case, "occupancy"))


def occupancy_of(case: Case) -> Occupancy | None:
    """Return the theoretical occupancy: of the compilation, else as the profiler worked it out for the launch."""
    if case.compiled is not None and case.compiled.occupancy is not None:
        return case.compiled.occupancy
    fraction = metric(case, "theoretical_occupancy")
    limits: dict[_Limiter, float] = {
        limiter: limit
        for limiter, name in _LIMITS.items()
        if (limit := metric(case, f"programs_by_{name}")) is not None
    }
    if fraction is None or not limits:
        return None
    limiter = min(limits, key=lambda name: limits[name])
    programs = int(limits[limiter])
    return Occupancy(fraction, programs, programs * num_warps(case), limiter)


def _resources(case: Case) -> Resources | None:
    if case.compiled is not None:
        return case.compiled.resources
    registers = metric(case, "registers")
    if registers is None:
        return None
    shared = (metric(case, "shared_bytes_static") or 0.0) + (metric(case, "shared_bytes_dynamic") or 0.0)
    return Resources(int(registers), 0, int(shared))


def _is_big_tensor_kernel(case: Case) -> bool:
    compiled = case.compiled
    if compiled is None:
        return bool(metric(case, "instructions.wgmma"))
    if not uses_tensor_cores(case):
        return False
    tile = compiled.work.dot_tile if compiled.work is not None else None
    return compiled.tensor_path in {"wgmma", "tcgen05"} or (tile is not None and tile[0] * tile[1] >= _BIG_TILE)


def _grid_is_the_limit(case: Case, now: Occupancy) -> bool:
    there = sms(case)
    if case.programs is None or there is None:
        return False
    return case.programs <= now.programs_per_sm * there


def _next_step(compiled: Compilation, now: Occupancy) -> tuple[int | None, int | None]:
    """Return the most registers per thread, and the most shared bytes, with which one more program would fit.

    Only the limiter is lowered; None for a resource that is not the limiter, or when no step of it alone helps.
    """
    limits, resources = architecture(compiled.arch), compiled.resources
    if limits is None or resources is None:
        return None, None

    def fits(tried: Resources) -> bool:
        then = occupancy(tried, compiled.num_warps, limits)
        return then is not None and then.programs_per_sm > now.programs_per_sm

    if now.limiter == "registers":
        steps = range(resources.registers // _REGISTER_STEP * _REGISTER_STEP, 0, -_REGISTER_STEP)
        return next((r for r in steps if fits(replace(resources, registers=r))), None), None
    sizes = range(resources.shared_bytes // _SHARED_STEP * _SHARED_STEP, -1, -_SHARED_STEP)
    return None, next((b for b in sizes if fits(replace(resources, shared_bytes=b))), None)
