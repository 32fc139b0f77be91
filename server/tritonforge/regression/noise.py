"""When a kernel counts as slower than its baseline: repeated runs, their spread, and the smallest effect that matters.

Within a run samples agree better than runs do: clocks, heat and the place of code and buffers differ from run to run.
So what is compared are medians of runs, and what they are compared against is how much runs differ.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.baseline import Runs
from tritonforge.profiling.statistics import noise_floor

MIN_EFFECT = 0.03
"""A change of the time below this share is not worth a failed check."""
RUN_DEVIATION = 0.0025
"""Standard deviation of a run's median, as a share: what a few runs cannot show is taken from many. Of the 40 medians
of each kernel in `benchmarks/results/2026-11-29-h200-timing-aa.json` the largest is 0.4 to 2.3 % above the smallest,
which for 40 normal values is 4.3 deviations."""
CLOCK_DEVIATION_US = 0.016
"""What the steps of the GPU's timer add to that: half of 32 ns."""
PRIOR_FREEDOM = 4.0
"""How many runs' worth of evidence that deviation counts for."""
DECISION = 0.99
"""Level of the interval that must exclude 1 before a change is claimed; what is shown is the 95 % interval."""
SUSPECT = 0.5
"""From this share of the smallest effect on a kernel is measured again before anything is said."""

Change = Literal["slower", "faster", "same"]


@dataclass(frozen=True)
class Ratio:
    """How the time after compares with the time before: `value` is after/before.

    `ci95` is for people; `decisive` is the interval that decides; `smallest` the smallest slowdown that these runs
    could have told from noise.
    """

    value: float
    ci95: tuple[float, float]
    decisive: tuple[float, float]
    smallest: float

    def change(self, min_effect: float = MIN_EFFECT) -> Change:
        """Say what the ratio allows to say."""
        if self.decisive[0] > 1.0 and self.value >= 1.0 + min_effect:
            return "slower"
        if self.decisive[1] < 1.0 and self.value <= 1.0 / (1.0 + min_effect):
            return "faster"
        return "same"

    def suspect(self, min_effect: float = MIN_EFFECT) -> bool:
        """Tell whether it is so far from 1 that another look is worth it."""
        return abs(math.log(self.value)) >= math.log1p(SUSPECT * min_effect)


def compare(before: Runs, after: Runs) -> Ratio:
    """Compare runs of two sessions.

    The deviation of a run is estimated from both sides' runs together with `RUN_DEVIATION`, which weighs like
    `PRIOR_FREEDOM` runs (a scaled inverse chi-squared prior on the variance), and the interval is Student's. It is
    widened by `noise_floor`, which no number of runs averages away.

    Raises:
        ValueError: for times that are not above 0, or no run.
    """
    first, second = _logs(before.medians), _logs(after.medians)
    squares = _squares(first) + _squares(second)
    freedom = len(first) + len(second) - 2
    share = 1.0 / len(first) + 1.0 / len(second)
    return _ratio(statistics.fmean(second) - statistics.fmean(first), squares, freedom, share, before, after)


def compare_pairs(before: Runs, after: Runs) -> Ratio:
    """Compare runs that were made side by side: run i of both in the same rounds, so that what disturbed both cancels.

    Raises:
        ValueError: as `compare` does, and for different numbers of runs.
    """
    if len(before.medians) != len(after.medians):
        raise ValueError("pairs need as many runs before as after")
    differences = [b - a for a, b in zip(_logs(before.medians), _logs(after.medians), strict=True)]
    # The deviation of a difference is √2 of that of a run; `share` carries it, so that the prior means the same.
    squares = _squares(differences) / 2.0
    share = 2.0 / len(differences)
    return _ratio(statistics.fmean(differences), squares, len(differences) - 1, share, before, after)


def student(level: float, freedom: float) -> float:
    """Return how many standard errors on each side hold `level` of Student's t distribution.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5; within 1 % from 5 degrees of freedom on.
    """
    x = statistics.NormalDist().inv_cdf(0.5 + level / 2.0)
    g1 = (x**3 + x) / 4
    g2 = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    g3 = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    g4 = (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160
    return x + g1 / freedom + g2 / freedom**2 + g3 / freedom**3 + g4 / freedom**4


def _ratio(  # noqa: PLR0917 - the parts of one formula
    difference: float, squares: float, freedom: int, share: float, before: Runs, after: Runs
) -> Ratio:
    least = min(before.median, after.median)
    usual = math.hypot(RUN_DEVIATION, CLOCK_DEVIATION_US / least)
    freedoms = PRIOR_FREEDOM + freedom
    error = math.sqrt((PRIOR_FREEDOM * usual**2 + squares) / freedoms * share)
    floor = 1.0 + noise_floor(least)

    def interval(level: float) -> tuple[float, float]:
        reach = student(level, freedoms) * error
        return math.exp(difference - reach) / floor, math.exp(difference + reach) * floor

    smallest = math.exp(student(DECISION, freedoms) * error) * floor
    return Ratio(math.exp(difference), interval(0.95), interval(DECISION), smallest)


def _logs(medians: Sequence[float]) -> list[float]:
    if not medians or min(medians) <= 0.0:
        raise ValueError("times must be above 0")
    return [math.log(one) for one in medians]


def _squares(values: Sequence[float]) -> float:
    middle = statistics.fmean(values)
    return sum((one - middle) ** 2 for one in values)
