"""Launches so small that starting them is most of their time."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import floor
from tritonforge.domain.provenance import Provenance

_MEASURED_SLACK = 2.0
"""A kernel that takes up to twice an empty launch does little besides being launched."""
_PREDICTED_SHARE = 0.5
_USUAL_LAUNCH_US = 3.0
"""An empty kernel on a data-centre GPU, where no GPU's figures are at hand."""


@dataclass(frozen=True)
class LaunchBound:
    """`time_us` of the launch, `launch_us` of an empty one, and the time its work would need at the ceilings."""

    time_us: float
    launch_us: float
    work_us: float | None
    provenance: Provenance


def launch_bound(case: Case) -> LaunchBound | None:
    """Judge whether launch overhead dominates: by measured time, else by the launch share of a predicted one."""
    time_us, least = case.time_us, floor(case)
    launch_us = case.gpu.ceilings.launch_us if case.gpu is not None else _USUAL_LAUNCH_US
    if time_us is None or (case.gpu is None and case.counters is None):
        return None
    work_us = least.time_us if least is not None else None
    if work_us is not None and work_us > launch_us:
        return None
    if case.time is not None and not _is_profilers(case):
        dominated = case.time.median <= _MEASURED_SLACK * launch_us
    elif case.time_provenance == "measured":
        dominated = time_us <= launch_us  # a profiler's time begins when the kernel does
    else:
        parts = case.prediction.parts if case.prediction is not None else {}
        dominated = parts.get("launch", 0.0) >= _PREDICTED_SHARE * time_us
    return LaunchBound(time_us, launch_us, work_us, case.time_provenance) if dominated else None


def _is_profilers(case: Case) -> bool:
    """Whether the time is the profiler's own, as a report from elsewhere gives it: without the launch itself."""
    return case.time is not None and case.counters is not None and case.counters.time_us == case.time.median
