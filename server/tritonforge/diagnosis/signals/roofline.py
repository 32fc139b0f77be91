"""How close a launch is to the fastest that this GPU can go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import Floor, floor, traffic
from tritonforge.diagnosis.signals.coalescing import strided_access
from tritonforge.diagnosis.signals.redundancy import redundancy
from tritonforge.domain.provenance import Provenance

AT_ROOFLINE = 0.85
"""Share of a ceiling from which there is nothing worth hunting for: a plain copy reaches 0.9 to 1.0 of it."""
NEAR_ROOFLINE = 0.7
"""Share from which textbook advice (occupancy, spills, tuning) is more likely to misfire than to help."""
_NOT_REDUNDANT = 1.25
"""Moved ÷ useful bytes up to which a memory roofline counted over moved bytes may be believed."""


@dataclass(frozen=True)
class Standing:
    """`fraction` (0–1) of the `bound` ceiling that the launch reaches; `achieved` and `ceiling` in `unit`."""

    fraction: float
    bound: Literal["memory", "compute"]
    achieved: float
    ceiling: float
    unit: str
    provenance: Provenance


def standing(case: Case) -> Standing | None:
    """Return where the launch stands by its measured time, else by its predicted time; None when neither is known.

    Counted over useful bytes: a kernel that reads its input three times at full bandwidth is not at its roofline.
    """
    if case.time is not None:
        return _from_floor(case, case.time.median, "measured") or _from_roofline(case)
    if case.prediction is not None:
        return _from_floor(case, case.prediction.time_us, "predicted")
    return None


def is_at_roofline(case: Case, threshold: float = AT_ROOFLINE) -> bool:
    """Tell whether the launch is known, by measurement or model, to reach `threshold` of its ceiling."""
    known = standing(case)
    return known is not None and known.fraction >= threshold


def is_measured_near_roofline(case: Case) -> bool:
    """Tell whether a measurement, not a model, puts the launch near its ceiling."""
    known = standing(case)
    return known is not None and known.provenance == "measured" and known.fraction >= NEAR_ROOFLINE


def _from_roofline(case: Case) -> Standing | None:
    roofline = case.roofline
    if roofline is None or roofline.fraction is None:
        return None
    known = traffic(case)
    if roofline.bound == "memory":
        achieved = roofline.achieved_gbps
        if achieved is None or _is_of_needless_bytes(case):
            return None
        if known is not None and roofline.bytes > _NOT_REDUNDANT * known.useful > 0:
            achieved *= known.useful / roofline.bytes
        share = achieved / roofline.ceiling_gbps if roofline.ceiling_gbps else 0.0
        return Standing(share, "memory", achieved, roofline.ceiling_gbps, "GB/s", "measured")
    achieved = roofline.achieved_tflops
    if achieved is None:
        return None
    return Standing(roofline.fraction, "compute", achieved, roofline.ceiling_tflops, "TFLOP/s", "measured")


def _is_of_needless_bytes(case: Case) -> bool:
    """Whether the bytes were counted on the bus, for lack of a compilation, and many of them need not be moved."""
    if case.counters is None or traffic(case) is not None:
        return False
    return strided_access(case) is not None or redundancy(case) is not None


def _from_floor(case: Case, time_us: float, provenance: Provenance) -> Standing | None:
    least: Floor | None = floor(case)
    known = traffic(case)
    if least is None or known is None or time_us <= 0 or least.time_us <= 0:
        return None
    if provenance == "measured" and not _is_exact(case):
        return None
    if least.memory_us >= least.tensor_us:
        achieved, share = known.useful / time_us / 1e3, least.memory_us / time_us
        return Standing(share, "memory", achieved, achieved / share, "GB/s", provenance)
    achieved, share = known.dot_flops / time_us / 1e6, least.tensor_us / time_us
    return Standing(share, "compute", achieved, achieved / share, "TFLOP/s", provenance)


def _is_exact(case: Case) -> bool:
    """Whether bytes were counted, not guessed: a guessed trip count must not hide a kernel at its ceiling."""
    return case.compiled is not None and case.compiled.work is not None and case.compiled.work.exact
