"""Replay searches for the fastest configuration on recorded sweeps: which sampler needs the fewest measurements?

`python benchmarks/bench_search.py [RECORDING.jsonl.xz …] [-o OUTPUT.json] [--seeds N]`

Needs no GPU: a recording (`sweeps/record.py`) holds the time of every configuration of a kernel, and what the compiler
made of it. Each strategy asks for one configuration after the other through Optuna's ask-and-tell interface and is told
its recorded time. What does not compile or does not fit is told as a broken constraint and costs no measurement, as in
a search. Times of the model are those of constants that were fitted without the kernel's jitted function.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "benchmarks")]

from sweeps.accuracy import NEAR  # noqa: E402
from sweeps.data import read_recording  # noqa: E402
from sweeps.fit import Sample, group_of, leave_one_out, samples_of  # noqa: E402

from tritonforge.optimize.choosing import AT_ONCE, NOISE, PER_ROUND  # noqa: E402
from tritonforge.optimize.constraints import FITS  # noqa: E402
from tritonforge.optimize.guide import Guide  # noqa: E402
from tritonforge.optimize.worth import may_win  # noqa: E402

RECORDINGS = ROOT / "benchmarks" / "results"
_AT = (1, 4, 8, 16, 24)
_MOST_ASKED = 600
_NEVER = 1e9
"""Told of what cannot run, for its constraint decides."""
Config = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Space:
    """The configurations of one kernel at one size: times in µs, measured and predicted; None where it was refused."""

    name: str
    choices: Mapping[str, Sequence[int]]
    measured: Mapping[Config, float | None]
    predicted: Mapping[Config, float]

    @property
    def best(self) -> float:
        """The fastest time in µs."""
        return min(value for value in self.measured.values() if value is not None)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The same choices as Optuna names them."""
        return {name: CategoricalDistribution(tuple(values)) for name, values in self.choices.items()}


@dataclass
class Walk:
    """The times in µs that one search measured, in order."""

    times: list[float]


def walk(space: Space, sampler: optuna.samplers.BaseSampler, first: Sequence[Config], most: int) -> Walk:
    """Ask and tell until so many configurations were measured."""
    study = optuna.create_study(sampler=sampler)
    for config in first:
        study.enqueue_trial(dict(config))
    done = Walk([])
    known: dict[Config, float] = {}
    for _ in range(_MOST_ASKED):
        if len(done.times) >= most or len(known) >= len(space.measured):
            break
        trial = study.ask(space.distributions)
        config = tuple((name, trial.params[name]) for name in space.choices)
        took = space.measured.get(config)
        if took is None:
            trial.set_constraint("fits", 1.0)
            study.tell(trial, _NEVER)
            continue
        trial.set_constraint("fits", -1.0)
        study.tell(trial, math.log(took))
        if config not in known:
            known[config] = took
            done.times.append(took)
    return done


def ordered(space: Space, order: Sequence[Config], most: int) -> Walk:
    """Measure in a fixed order."""
    return Walk([took for config in order if (took := space.measured[config]) is not None][:most])


@dataclass(frozen=True)
class Timed:
    """A configuration's times in µs, as a search weighs them."""

    measured_us: float
    predicted_us: float

    def time_us(self, *, measured: bool) -> float:
        """Return the one or the other."""
        return self.measured_us if measured else self.predicted_us


def shipped(space: Space, most: int, *, doubt: float = 0.0, batch: int = 1, gain: float = 0.0) -> Walk:
    """Search with the study that `optimize` uses, so many measurements at a time; what is refused costs none.

    With `gain` it ends as a round of a search does: when no version that is left is expected to save so great a share
    of the best, or none of those that come next may be faster than it as far as the model can be trusted.
    """
    configs = [c for c in space.measured if c in space.predicted]
    guide = Guide([dict(c) for c in configs], doubt=doubt)
    for place, config in enumerate(configs):
        guide.ready(place, space.predicted[config], space.predicted[config])
    walked, done = Walk([]), list[Timed]()
    while guide.waiting and len(walked.times) < most and (not gain or guide.gain() >= gain):
        asked = [guide.ask() for _ in range(min(batch, guide.waiting, most - len(walked.times)))]
        places = [place for place in asked if place is not None]
        times = [
            Timed(took, space.predicted[configs[place]])
            if (took := space.measured[configs[place]]) is not None
            else None
            for place in places
        ]
        if gain and not any(one is None or may_win(one, done) for one in times):
            break
        for place, one in zip(places, times, strict=True):
            if one is None:
                guide.refuse(place, FITS)
            else:
                guide.tell(place, one.measured_us)
                walked.times.append(one.measured_us)
                done.append(one)
    return walked


def ended(spaces: Sequence[Space], batch: int) -> dict[str, float]:
    """Let searches end by themselves, as one round of `optimize` does, and say what that costs and saves."""
    walks = [shipped(space, PER_ROUND, batch=batch, gain=NOISE).times for space in spaces]
    losses = [min(times) / space.best for times, space in zip(walks, spaces, strict=True)]
    row = {
        "batch": batch,
        "measured": statistics.mean(map(len, walks)),
        "configurations": statistics.mean(len(space.measured) for space in spaces),
        "loss": statistics.geometric_mean(losses),
        "worst": max(losses),
    }
    print(
        f"Ended when less than {NOISE:.0%} is expected to be saved, {batch} at a time: after {row['measured']:.1f} of "
        f"{row['configurations']:.1f} configurations, at {row['loss']:.4f} of the best, {row['worst']:.4f} at worst"
    )
    return row


def strategies() -> dict[str, Callable[[Space, int], Walk]]:
    """Return what is compared, by name."""
    most = max(_AT)

    def tpe(seed: int, startup: int) -> optuna.samplers.BaseSampler:
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=startup)

    def by_model(space: Space) -> list[Config]:
        return sorted((c for c in space.measured if c in space.predicted), key=space.predicted.__getitem__)

    def known(space: Space, count: int) -> list[Config]:
        return by_model(space)[:count]

    return {
        "random": lambda s, n: walk(s, optuna.samplers.RandomSampler(n), (), most),
        "TPE": lambda s, n: walk(s, tpe(n, 8), (), most),
        "model": lambda s, _: ordered(s, by_model(s), most),
        "model's 4, then TPE": lambda s, n: walk(s, tpe(n, 4), known(s, 4), most),
        "model's 8, then TPE": lambda s, n: walk(s, tpe(n, 8), known(s, 8), most),
        "model, corrected": lambda s, _: shipped(s, most),
        "model, corrected, 1 sigma": lambda s, _: shipped(s, most, doubt=1.0),
        "model, corrected, 8 at a time": lambda s, _: shipped(s, most, batch=8),
        "model, corrected, 8 at a time, 1 sigma": lambda s, _: shipped(s, most, batch=8, doubt=1.0),
    }


def spaces_of(samples: Sequence[Sample], refused: Mapping[tuple[str, str], Sequence[Config]]) -> list[Space]:
    """Return the space of each kernel at each size, predicted by constants that never saw the kernel."""
    folds = leave_one_out(samples, key=group_of)
    found = []
    for place in dict.fromkeys((s.kernel, s.size) for s in samples):
        here = [s for s in samples if (s.kernel, s.size) == place]
        measured: dict[Config, float | None] = {tuple(s.point.config.items()): s.time_us for s in here}
        predicted = {tuple(s.point.config.items()): s.predicted(folds[group_of(s)]).time_us for s in here}
        measured.update(dict.fromkeys(refused.get(place, ()), None))
        names = list(here[0].point.config)
        choices = {n: sorted({dict(c)[n] for c in measured}) for n in names}
        found.append(Space("/".join(place), choices, measured, predicted))
    return found


def main() -> None:
    """Replay every strategy on every space, print a table and keep everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, default=sorted(RECORDINGS.glob("*-sweeps-*.jsonl.xz")))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    recordings = [read_recording(path) for path in options.recordings]
    refused: dict[tuple[str, str], list[Config]] = {}
    for recording in recordings:
        for point in recording.points:
            if point.time is None:
                refused.setdefault((point.kernel, point.size), []).append(tuple(point.config.items()))
    spaces = spaces_of(samples_of(recordings), refused)
    rows = []
    print(f"{len(spaces)} kernels, {sum(len(s.measured) for s in spaces)} configurations; time over the best after")
    print("| strategy | " + " | ".join(f"{n} measured" for n in _AT) + " | measured until within 5 % | ms to choose |")
    print("| --- |" + " --- |" * (len(_AT) + 2))
    for name, run in strategies().items():
        losses: dict[int, list[float]] = {n: [] for n in _AT}
        until: list[float] = []
        began, chosen = time.perf_counter(), 0
        for space in spaces:
            seeds = options.seeds if "TPE" in name or name == "random" else 1
            for seed in range(seeds):
                times = run(space, seed).times
                chosen += len(times)
                for n in _AT:
                    losses[n].append(min(times[:n]) / space.best)
                near = (i for i, took in enumerate(times, 1) if took <= NEAR * space.best)
                until.append(next(near, len(space.measured)))
        spent = (time.perf_counter() - began) / max(chosen, 1) * 1e3
        row = {"strategy": name, "until_near": statistics.mean(until), "ms": spent}
        row |= {f"loss_{n}": statistics.geometric_mean(values) for n, values in losses.items()}
        row |= {"worst_8": max(losses[8])}
        rows.append(row)
        shown = " | ".join(f"{row[f'loss_{n}']:.3f}" for n in _AT)
        print(f"| {name} | {shown} | {row['until_near']:.1f} | {spent:.1f} |", flush=True)
    stops = [ended(spaces, AT_ONCE)]
    if options.output:
        about = {"date": time.strftime("%Y-%m-%d"), "optuna": optuna.__version__, "seeds": options.seeds}
        about["recordings"] = [path.name for path in options.recordings]
        options.output.write_text(json.dumps({"environment": about, "rows": rows, "stops": stops}, indent=1) + "\n")


if __name__ == "__main__":
    main()
