"""Fit the constants of the time model to recordings: robust least squares on log time, kernels weigh alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sweeps.data import Point, Recording, Unreadable
from tritonforge.domain.compilation import Prediction
from tritonforge.domain.profile import Ceilings
from tritonforge.prediction import GpuSpec, footprint_of, gpu_for
from tritonforge.prediction.constants import FREE, START, Constants
from tritonforge.prediction.load import Load, load_of
from tritonforge.prediction.model import predict_load

HUBER = 0.15
"""Log errors beyond this (15 %) count linearly, not squared: what the model lacks must not bend the rest."""
_STEP = 1e-3
_ROUNDS = 25
_ENOUGH = 1e-5
PRIOR = 0.02
"""Pull of each constant towards where it starts, in log space: decides only what the data say nothing about."""


@dataclass(frozen=True)
class Sample:
    """One timed configuration: what the model is told of it, and its median time in µs."""

    kernel: str
    size: str
    point: Point
    load: Load
    spec: GpuSpec
    time_us: float

    def predicted(self, constants: Constants, ceilings: Ceilings | None = None) -> Prediction:
        """Predict it, with the GPU's public figures unless measured `ceilings` are given."""
        assert self.point.compilation is not None
        return predict_load(self.load, self.point.compilation, self.spec, ceilings, constants)

    @cached_property
    def group(self) -> str:
        """What is left out together: the jitted function, with whatever types, layouts and sizes it is called."""
        assert self.point.launch is not None
        return self.point.launch.kernel

    @cached_property
    def family(self) -> str:
        """The file of its kernel, by name: attention, elementwise, movement, products or reductions."""
        assert self.point.launch is not None
        return Path(self.point.launch.kernel_file).stem


Key = Callable[[Sample], str]
"""What is left out together."""


def group_of(sample: Sample) -> str:
    """Return the jitted function of a sample."""
    return sample.group


def family_of(sample: Sample) -> str:
    """Return the family of a sample."""
    return sample.family


def samples_of(recordings: Iterable[Recording]) -> list[Sample]:
    """Return the timed configurations of recordings, described once for all that follows.

    Raises:
        Unreadable: when the figures of the GPU that one was recorded on are not known.
    """
    found = []
    for recording in recordings:
        spec = gpu_for(recording.about["arch"], recording.about["gpu"])
        if spec is None or spec.stand_in:
            raise Unreadable(f"no figures of {recording.about['gpu'] or recording.about['arch']} are known")
        for point in recording.points:
            if point.time is None or point.compilation is None or point.launch is None:
                continue
            load = load_of(point.compilation, spec.sms, footprint_of(point.launch))
            if load is None:
                continue
            sample = Sample(point.kernel, point.size, point, load, spec, point.time.median)
            if math.isfinite(sample.predicted(START).time_us):
                found.append(sample)
    return found


def fit(
    samples: Sequence[Sample],
    names: Sequence[str] = FREE,
    start: Constants = START,
    begin: Constants | None = None,
) -> Constants:
    """Return `start` with the constants of these names changed to what fits the samples best.

    Levenberg and Marquardt's method in the logarithms of the constants, with Huber's weights. `start` is what constants
    that the data say nothing about keep; the search begins there too, or at `begin`.
    """
    counts = Counter(sample.kernel for sample in samples)
    share = [1 / (counts[s.kernel] * len(counts)) for s in samples]

    def errors(constants: Constants) -> list[float]:
        return [math.log(s.predicted(constants).time_us / s.time_us) for s in samples]

    def moved(constants: Constants, step: Sequence[float]) -> Constants:
        changes = {name: getattr(constants, name) * math.exp(d) for name, d in zip(names, step, strict=True)}
        return replace(constants, **changes)

    def away(constants: Constants) -> list[float]:
        return [math.log(getattr(constants, name) / getattr(start, name)) for name in names]

    def loss(constants: Constants, errors: Sequence[float]) -> float:
        data = sum(w * _huber(e) for w, e in zip(share, errors, strict=True))
        return data + PRIOR**2 * sum(d * d for d in away(constants))

    now = begin or start
    error = errors(now)
    value = loss(now, error)
    damping = 1e-3
    for _ in range(_ROUNDS):
        columns = []
        for place in range(len(names)):
            nudged = errors(moved(now, [_STEP * (i == place) for i in range(len(names))]))
            columns.append([(b - a) / _STEP for a, b in zip(error, nudged, strict=True)])
        weights = [w * min(1.0, HUBER / max(abs(e), 1e-12)) for w, e in zip(share, error, strict=True)]
        normal = [
            [sum(w * x * y for w, x, y in zip(weights, a, b, strict=True)) for b in columns] for a in columns
        ]  # fmt: skip
        right = [-sum(w * x * e for w, x, e in zip(weights, a, error, strict=True)) for a in columns]
        for i, d in enumerate(away(now)):
            normal[i][i] += PRIOR**2
            right[i] -= PRIOR**2 * d
        better = False
        for _ in range(8):
            damped = [
                [v + (damping * (v + 1e-9) if i == j else 0.0) for j, v in enumerate(row)]
                for i, row in enumerate(normal)
            ]
            step = [max(-0.7, min(0.7, d)) for d in solve(damped, right)]
            there = moved(now, step)
            there_error = errors(there)
            there_value = loss(there, there_error)
            if there_value < value:
                better = True
                break
            damping *= 5
        if not better:
            break
        gain = value - there_value
        now, error, value = there, there_error, there_value
        damping = max(1e-6, damping / 5)
        if gain < _ENOUGH * value:
            break
    return now


def _huber(error: float) -> float:
    size = abs(error)
    return size * size if size <= HUBER else HUBER * (2 * size - HUBER)


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve a small system of linear equations by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))) / rows[i][i]
    return found


def leave_one_out(
    samples: Sequence[Sample], key: Key = group_of, tell: Callable[[str], None] = lambda _: None
) -> Mapping[str, Constants]:
    """Fit once for each jitted function, or each family, to all others: returns the constants to judge it by."""
    found = {}
    for left_out in dict.fromkeys(map(key, samples)):
        found[left_out] = fit([s for s in samples if key(s) != left_out])
        tell(left_out)
    return found
