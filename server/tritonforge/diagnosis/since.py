"""How a kernel's time has changed from one profile to the next."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.domain.results import ProfileResult
from tritonforge.workload.launches import problem_id

_SAME = 0.005
"""Relative difference below which nothing has changed."""


def change_of(before: ProfileResult, after: ProfileResult) -> float | None:
    """Return how much faster a kernel's launches have become (before/after), 1.0 where no difference counts.

    Launches are matched by what they compute, so a change of tiles or options is seen; each counts as often as it was
    seen. Measured differences count where the 95 % intervals do not overlap. None when nothing can be compared: no
    launch in common, or one side measured and the other predicted.
    """
    old, new = _times(before), _times(after)
    common = [key for key in new if key in old]
    if not common:
        return None
    spent_before = sum(old[key].median * new[key].count for key in common)
    spent_after = sum(new[key].median * new[key].count for key in common)
    if spent_after <= 0:
        return None
    within = all(old[key].low <= new[key].high and new[key].low <= old[key].high for key in common)
    speedup = spent_before / spent_after
    return 1.0 if within or abs(speedup - 1) < _SAME else speedup


@dataclass(frozen=True)
class _Time:
    median: float
    low: float
    high: float
    count: int


def _times(result: ProfileResult) -> dict[tuple[str, bool], _Time]:
    found: dict[tuple[str, bool], _Time] = {}
    for profile in result.profiles:
        key = (problem_id(profile.kernel, profile.launch.problem), profile.time_us is not None)
        if profile.time_us is not None:
            low, high = profile.time_us.ci95
            one = _Time(profile.time_us.median, low, high, profile.launch.count)
        elif (predicted := result.predictions.get(profile.launch.id)) is not None:
            # A model has no noise: its interval is about the hardware, and is the same on both sides.
            one = _Time(predicted.time_us, predicted.time_us, predicted.time_us, profile.launch.count)
        else:
            continue
        # Two configs of one problem: the faster is what the problem takes.
        if key not in found or one.median < found[key].median:
            found[key] = one
    return found
