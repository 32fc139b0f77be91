"""The time model, corrected by what was measured: a Gaussian process of the logarithm of measured over predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Value = int | float | str | bool | None
Point = Mapping[str, Value]
"""One version of a kernel: its structure, and the values that it is launched with. None: its structure has no such
value."""

STRUCTURE = "structure"
"""The name of the choice among structures: the rewrites that were made, joined by `JOIN`."""
JOIN = " + "

SPREAD = 0.3
"""Standard deviation of the model's error between versions of one kernel, as a logarithm."""
REACH = 2.0
"""Over how many steps of a value, or rewrites, the error stays alike."""
NOISE = 0.03
"""Standard deviation of what two measurements of one version differ by, as a logarithm."""
DOUBT = 0.0
"""Standard deviations taken off what is expected of a version. `benchmarks/bench_search.py` holds 0 against 1."""
_ABSENT = 1.0
"""Steps between having a value and not having it."""
_PER_REWRITE = 1.0
"""Steps between two structures for each rewrite that only one of them has."""

_HOPELESS = 30.0
"""Standard deviations above the best beyond which nothing is expected; keeps infinite times out of the arithmetic."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Belief:
    """What is expected of each version: mean and standard deviation of the logarithm of its time."""

    mean: Array
    deviation: Array


def steps_between(points: Sequence[Point]) -> Array:
    """Return, n × n, how many steps lie between each two of n points.

    A value counts by its place among all that occur, since tiles double; a structure by the rewrites that only one of
    two has.
    """
    total = np.zeros((len(points), len(points)))
    for name in dict.fromkeys(name for point in points for name in point):
        values = [point.get(name) for point in points]
        if name == STRUCTURE:
            parts = [frozenset(str(value).split(JOIN)) - {""} for value in values]
            total += _PER_REWRITE * np.array([[len(a ^ b) for b in parts] for a in parts])
            continue
        numbers = sorted({value for value in values if isinstance(value, int | float)})
        places = {value: place for place, value in enumerate(numbers)}
        row = np.array([places[v] if isinstance(v, int | float) else math.nan for v in values])
        away = np.abs(row[:, None] - row[None])
        same = np.array([[a == b for b in values] for a in values])
        total += np.where(np.isnan(away), np.where(same, 0.0, _ABSENT), away)
    return total


def corrected(steps: Array, predicted: Array, seen: Sequence[int], measured: Sequence[float]) -> Belief:
    """Return what is expected of every version, given what some were measured at.

    Args:
        steps: between versions, n × n (`steps_between`).
        predicted: the logarithm of each version's predicted time, length n.
        seen: places of those that were measured.
        measured: the logarithms of their times, in that order.

    The mean is that of Gaussian process regression (Rasmussen and Williams 2006, equations 2.25 and 2.26) with the
    kernel SPREAD² exp(-steps / REACH), on the model's error.
    """
    kernel = SPREAD**2 * np.exp(-steps / REACH)
    if not seen:
        return Belief(predicted.copy(), np.full(len(predicted), SPREAD))
    places = list(seen)
    gram = kernel[np.ix_(places, places)] + NOISE**2 * np.eye(len(places))
    off = np.asarray(measured, dtype=np.float64) - predicted[places]
    solved = np.linalg.solve(gram, np.column_stack([off, kernel[places]]))
    variance = np.diag(kernel) - (kernel[:, places] * solved[:, 1:].T).sum(axis=1)
    return Belief(predicted + kernel[:, places] @ solved[:, 0], np.sqrt(np.maximum(variance, 1e-12)))


def expected_gain(belief: Belief, best: float) -> Array:
    """Return how much of `best`, the logarithm of the best time, each version is expected to save (as a logarithm).

    Expected improvement of a normal distribution (Jones, Schonlau and Welch 1998, equation 15).
    """
    away = np.maximum((best - belief.mean) / belief.deviation, -_HOPELESS)
    density = np.exp(-0.5 * away**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-one / math.sqrt(2)) for one in away])
    gain: Array = belief.deviation * (away * below + density)
    return np.maximum(gain, 0.0)
