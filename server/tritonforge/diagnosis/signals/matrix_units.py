"""Dots that run on ordinary arithmetic instead of tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric, samples_on
from tritonforge.diagnosis.facts import floor, traffic, uses_tensor_cores
from tritonforge.domain.provenance import Provenance

_MATRIX = ("instructions.mma", "instructions.wgmma")
_IDLE = 0.01
_FULL = 0.4
_MOST = 0.5
"""Share of all samples on the dots from which they are what takes the time: without matrix instructions each
multiply-add reads its operands from shared memory, which can be full while arithmetic is not."""
_PEAK = 0.6


@dataclass(frozen=True)
class OrdinaryDot:
    """`dots_us` is what the dots need on ordinary units, where known; `arithmetic` the counted share of those (0–1)."""

    dots_us: float | None
    arithmetic: float | None
    provenance: Provenance


def ordinary_dot(case: Case) -> OrdinaryDot | None:
    """Judge whether dots compiled to multiply-adds, and whether those are what takes the time."""
    if not case.kernel.dots:
        return None
    tensor = metric(case, "tensor_active")
    return _compiled(case) if tensor is None else _counted(case, tensor)


def _counted(case: Case, tensor: float) -> OrdinaryDot | None:
    if tensor >= _IDLE or any(metric(case, name) for name in _MATRIX):
        return None
    found = [share for name in ("fma_active", "issue_active") if (share := metric(case, name)) is not None]
    arithmetic = max(found, default=0.0)
    on_dots = samples_on(case, (dot.range for dot in case.kernel.dots)) or 0.0
    if max(arithmetic / _FULL, on_dots / _MOST) < 1.0 or (metric(case, "dram_throughput") or 0.0) >= _PEAK:
        return None
    return OrdinaryDot(None, arithmetic, "measured")


def _compiled(case: Case) -> OrdinaryDot | None:
    known, least = traffic(case), floor(case)
    if case.compiled is None or known is None or least is None or case.gpu is None:
        return None
    if uses_tensor_cores(case) or known.dot_flops <= 0:
        return None
    ordinary = case.gpu.ceilings.tflops.get("fp32")
    dots_us = known.dot_flops / (ordinary * 1e6) if ordinary else None
    if dots_us is not None and dots_us < least.memory_us:
        return None
    return OrdinaryDot(dots_us, None, "compiled")
