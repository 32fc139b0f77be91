"""Medians with intervals, and when two versions count as different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tritonforge.domain.profile import TimeDistribution

RESAMPLES = 2000
_SEED = 20_480  # intervals of the same samples must not differ between two runs
PLACEMENT = 0.005
"""What two loads of one kernel may differ by for ever, because its code and its buffers lie elsewhere: no number of
samples makes it smaller, so it widens every interval of a ratio. `benchmarks/bench_timing.py` measures it."""
CLOCK_US = 0.05
"""What a time may be off by for ever, whatever it is: a little more than the 32 ns of the GPU's timer."""
_OUTLIER_DEVIATIONS = 6.0
_NORMAL_MAD = 1.4826
"""Standard deviations of a normal distribution in one median absolute deviation."""
_LEAST_OUTLIER = 1.05

Verdict = Literal["faster", "slower", "same"]


def summarise(samples: Sequence[float]) -> TimeDistribution:
    """Return the median of `samples` (µs) with its percentile-bootstrap 95 % interval.

    Neighbouring samples share clocks and heat, so blocks of them are resampled, not single ones (circular block
    bootstrap; Politis and Romano 1992, with blocks of n^(1/3), Hall, Horowitz and Jing 1995).

    Raises:
        ValueError: without a sample.
    """
    if not samples:
        raise ValueError("no samples")
    values = np.asarray(samples, dtype=np.float64)
    medians = np.median(values[_picks(len(values), np.random.default_rng(_SEED))], axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return TimeDistribution(float(np.median(values)), (float(low), float(high)), len(samples), outliers(samples))


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the speedup median(before) / median(after) with its 95 % interval.

    Two versions are different only when the interval excludes 1. Samples of equal number are taken to be of the same
    rounds, which are resampled together, so that what disturbed both cancels. The bootstrap interval is widened by
    `PLACEMENT` and `CLOCK_US`, which more samples of the same two programs cannot average away.
    """
    generator = np.random.default_rng(_SEED)
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    picks = _picks(len(first), generator)
    others = picks if len(first) == len(second) else _picks(len(second), generator)
    ratios = np.median(first[picks], axis=1) / np.median(second[others], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    ratio = float(np.median(first) / np.median(second))
    floor = noise_floor(min(float(np.median(first)), float(np.median(second))))
    return ratio, (float(low) / (1.0 + floor), float(high) * (1.0 + floor))


def noise_floor(time_us: float) -> float:
    """Return the share by which two measurements of one kernel of that time may differ however often it is run."""
    return PLACEMENT + CLOCK_US / time_us if time_us > 0 else float("inf")


def verdict(interval: tuple[float, float]) -> Verdict:
    """Say what the interval of a speedup allows to say of the version that came after."""
    if interval[0] > 1.0:
        return "faster"
    return "slower" if interval[1] < 1.0 else "same"


def outliers(samples: Sequence[float]) -> int:
    """Count samples far above the others: by six deviations, taken from the median absolute deviation, and by 5 %."""
    values = np.asarray(samples, dtype=np.float64)
    middle = float(np.median(values))
    deviation = _NORMAL_MAD * float(np.median(np.abs(values - middle)))
    return int(np.sum(values > max(middle + _OUTLIER_DEVIATIONS * deviation, _LEAST_OUTLIER * middle)))


def _picks(count: int, generator: np.random.Generator) -> np.ndarray:
    """Return indices of `RESAMPLES` resamples of `count` values, in blocks that wrap round the end."""
    length = max(1, round(count ** (1 / 3)))
    blocks = -(-count // length)
    starts = generator.integers(0, count, size=(RESAMPLES, blocks))
    indices = (starts[:, :, None] + np.arange(length)) % count
    return np.asarray(indices.reshape(RESAMPLES, -1)[:, :count])
