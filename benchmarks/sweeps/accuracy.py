"""How good predictions of recorded sweeps are: rank correlation, what a short search finds, error of the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sweeps.fit import Key, Sample, group_of
from tritonforge.prediction.constants import Constants

NEAR = 1.05
"""A configuration this close to the best counts as found."""
TOP = 8


@dataclass(frozen=True)
class Score:
    """How well one kernel at one size is predicted.

    `spearman`: rank correlation of predicted and measured times. `measurements`: how many configurations, the
    predicted fastest first, are measured until one is within 5 % of the best. `loss`: time of the predicted fastest
    over the best; `loss_top` that of the best of the first eight. `error`: median of |predicted/measured - 1|, None
    for a baseline that predicts no time. `bias`: median of predicted/measured.
    """

    kernel: str
    size: str
    configurations: int
    best_us: float
    worst_us: float
    spearman: float
    measurements: int
    loss: float
    loss_top: float
    error: float | None
    bias: float | None


Judge = Callable[[Sample], float]


def score(samples: Sequence[Sample], predicted: Sequence[float], *, times: bool = True) -> Score:
    """Score predictions of the configurations of one kernel at one size; `times`: they are µs, not a mere order."""
    measured = [sample.time_us for sample in samples]
    order = sorted(range(len(samples)), key=lambda i: predicted[i])
    best = min(measured)
    ratios = [p / m for p, m in zip(predicted, measured, strict=True)]
    return Score(
        kernel=samples[0].kernel,
        size=samples[0].size,
        configurations=len(samples),
        best_us=best,
        worst_us=max(measured),
        spearman=spearman(predicted, measured),
        measurements=until_near(order, measured),
        loss=measured[order[0]] / best,
        loss_top=min(measured[i] for i in order[:TOP]) / best,
        error=median(abs(r - 1) for r in ratios) if times else None,
        bias=median(ratios) if times else None,
    )


def scores(samples: Sequence[Sample], judge: Judge, *, times: bool = True) -> list[Score]:
    """Score every kernel at every size."""
    found = []
    for place in dict.fromkeys((s.kernel, s.size) for s in samples):
        here = [s for s in samples if (s.kernel, s.size) == place]
        found.append(score(here, [judge(s) for s in here], times=times))
    return found


def by_model(constants: Constants | Mapping[str, Constants], key: Key = group_of) -> Judge:
    """Judge by the model: with one set of constants, or for each kernel with those that were fitted without it."""

    def judge(sample: Sample) -> float:
        one = constants if isinstance(constants, Constants) else constants[key(sample)]
        return sample.predicted(one).time_us

    return judge


def by_occupancy(sample: Sample) -> float:
    """Judge by theoretical occupancy alone, the highest first."""
    compilation = sample.point.compilation
    return -(compilation.occupancy.fraction if compilation and compilation.occupancy else 0.0)


def by_roofline(sample: Sample) -> float:
    """Return the plain roofline in µs: distinct bytes over bandwidth, or FLOPs over the peak rate.

    The same for every configuration, but for what masks leave out.
    """
    return _roofline(sample, sum(stream.distinct(sample.load.programs) for stream in sample.load.streams))


def by_requests(sample: Sample) -> float:
    """Return the roofline in µs of what all programs ask for together: large tiles ask for less."""
    return _roofline(sample, sample.load.programs * sample.load.moved)


def _roofline(sample: Sample, size: float) -> float:
    spec, load = sample.spec, sample.load
    tensor = sample.point.compilation is not None and sample.point.compilation.tensor_path not in {"none", "fma"}
    rate = spec.tflops.get((load.work.dot_dtype or "fp16") if tensor else "fp32", spec.tflops["fp32"])
    flops = load.total("dot_flops") or load.total("alu_ops")
    return spec.launch_us + max(size / spec.dram_gbps / 1e3, load.programs * flops / rate / 1e6)


def until_near(order: Sequence[int], measured: Sequence[float]) -> int:
    """Return how many are measured in `order` until one is within 5 % of the best."""
    best = min(measured)
    return next(n for n, i in enumerate(order, 1) if measured[i] <= NEAR * best)


def until_near_at_random(measured: Sequence[float]) -> float:
    """Return how many are measured in random order, in the mean, until one is within 5 % of the best.

    With g of n good ones the first of them is at place (n + 1) / (g + 1) in the mean.
    """
    good = sum(time <= NEAR * min(measured) for time in measured)
    return (len(measured) + 1) / (good + 1)


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share the mean of their ranks, and 0 where all are equal."""
    x, y = ranks(a), ranks(b)
    mean = (len(x) - 1) / 2
    top = sum((p - mean) * (q - mean) for p, q in zip(x, y, strict=True))
    spread = math.sqrt(sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y))
    return top / spread if spread else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 0; equal ones share the mean of theirs."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            found[place] = (start + end - 1) / 2
        start = end
    return found


@dataclass(frozen=True)
class Summary:
    """All kernels together: the figures that the targets are set on."""

    kernels: int
    configurations: int
    spearman: float
    found: float
    error: float | None
    measurements: float


def summary(found: Sequence[Score]) -> Summary:
    """Sum up: median rank correlation and error, share of kernels with a near-best one in front, mean search length."""
    errors = [s.error for s in found if s.error is not None]
    return Summary(
        kernels=len(found),
        configurations=sum(s.configurations for s in found),
        spearman=median(s.spearman for s in found),
        found=sum(s.measurements <= TOP for s in found) / len(found),
        error=median(errors) if errors else None,
        measurements=sum(s.measurements for s in found) / len(found),
    )
