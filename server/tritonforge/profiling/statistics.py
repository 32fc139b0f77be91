"""Medians with intervals, and when two versions count as different."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tritonforge.domain.profile import TimeDistribution

RESAMPLES = 2000
_SEED = 20_480  # intervals of the same samples must not differ between two runs


def summarise(samples: Sequence[float]) -> TimeDistribution:
    """Return the median of `samples` (µs) with its percentile-bootstrap 95 % interval.

    Source of the method: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.

    Raises:
        ValueError: without a sample.
    """
    if not samples:
        raise ValueError("no samples")
    values = np.asarray(samples, dtype=np.float64)
    medians = _resampled_medians(values, np.random.default_rng(_SEED))
    low, high = np.percentile(medians, (2.5, 97.5))
    return TimeDistribution(float(np.median(values)), (float(low), float(high)), len(samples))


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the speedup median(before) / median(after) with its bootstrap 95 % interval.

    Two versions are different only when the interval excludes 1.
    """
    generator = np.random.default_rng(_SEED)
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    ratios = _resampled_medians(first, generator) / _resampled_medians(second, generator)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return float(np.median(first) / np.median(second)), (float(low), float(high))


def _resampled_medians(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    picks = generator.integers(0, len(values), size=(RESAMPLES, len(values)))
    return np.asarray(np.median(values[picks], axis=1))
