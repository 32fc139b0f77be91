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

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "benchmarks")]

from sweeps.accuracy import NEAR  # noqa: E402
from sweeps.data import read_recording  # noqa: E402
from sweeps.fit import Sample, group_of, leave_one_out, samples_of  # noqa: E402

RECORDINGS = ROOT / "benchmarks" / "results"
_AT = (1, 4, 8, 16, 24)
_MOST_ASKED = 600
_NEVER = 1e9
"""Told of what cannot run, for its constraint decides."""
_SPREAD, _REACH, _NOISE = 0.3, 2.0, 0.03
"""Of the model's error, as logarithms: its standard deviation, over how many steps of a parameter it stays alike, and
what two measurements differ by."""
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


def corrected(space: Space, most: int, *, doubt: float) -> Walk:
    """Measure what the model expects to be fastest, corrected by how far it was off on similar configurations.

    A Gaussian process of the logarithm of measured over predicted; `doubt` standard deviations are taken off.
    """
    configs = [c for c in space.measured if c in space.predicted]
    names = list(space.choices)
    places = {n: {v: i for i, v in enumerate(sorted(space.choices[n]))} for n in names}
    points = np.array([[places[n][dict(c)[n]] for n in names] for c in configs], dtype=float)
    mean = np.log([space.predicted[c] for c in configs])
    kernel = _SPREAD**2 * np.exp(-np.abs(points[:, None] - points[None]).sum(-1) / _REACH)
    done: list[int] = []
    left = set(range(len(configs)))
    walked = Walk([])
    while left and len(walked.times) < most:
        seen = [i for i in done if space.measured[configs[i]] is not None]
        if seen:
            gram = kernel[np.ix_(seen, seen)] + _NOISE**2 * np.eye(len(seen))
            off = np.log([space.measured[configs[i]] for i in seen]) - mean[seen]
            solved = np.linalg.solve(gram, np.column_stack([off, kernel[seen]]))
            shift = kernel[:, seen] @ solved[:, 0]
            spread = np.sqrt(np.maximum(np.diag(kernel) - (kernel[:, seen] * solved[:, 1:].T).sum(1), 1e-9))
        else:
            shift, spread = np.zeros(len(configs)), np.full(len(configs), _SPREAD)
        score = mean + shift - doubt * spread
        chosen = min(left, key=lambda i: score[i])
        left.discard(chosen)
        done.append(chosen)
        took = space.measured[configs[chosen]]
        if took is not None:
            walked.times.append(took)
    return walked


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
        "model, corrected": lambda s, _: corrected(s, most, doubt=0.0),
        "model, corrected, 1 sigma": lambda s, _: corrected(s, most, doubt=1.0),
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
    if options.output:
        about = {"date": time.strftime("%Y-%m-%d"), "optuna": optuna.__version__, "seeds": options.seeds}
        about["recordings"] = [path.name for path in options.recordings]
        options.output.write_text(json.dumps({"environment": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
