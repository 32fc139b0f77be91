"""Score the time model on recorded sweeps, each kernel with constants that were fitted without it.

`python benchmarks/bench_prediction.py [RECORDING.jsonl.xz …] [-o OUTPUT.json] [--unseen RECORDING.jsonl.xz …]`

Needs no GPU and no compiler: recordings (`sweeps/record.py`) hold what the compiler made of each configuration, and
its time. `--unseen` recordings are scored with the constants of the model as it is, not fitted to them. Prints
Markdown, and writes everything with the constants of every fold, which `tests/prediction` checks.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "benchmarks")]

from sweeps.accuracy import (  # noqa: E402
    Judge,
    Score,
    by_model,
    by_occupancy,
    by_requests,
    by_roofline,
    scores,
    summary,
    until_near,
    until_near_at_random,
)
from sweeps.data import Recording, Unreadable, read_recording  # noqa: E402
from sweeps.fit import Key, Sample, family_of, fit, group_of, leave_one_out, samples_of  # noqa: E402
from sweeps.search import Search, searched  # noqa: E402

from tritonforge.prediction import disagreement, footprint_of, predict  # noqa: E402
from tritonforge.prediction.constants import FITTED, FREE, Constants  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
BASELINES: Mapping[str, tuple[Judge, bool]] = {
    "occupancy alone": (by_occupancy, False),
    "roofline, distinct bytes": (by_roofline, True),
    "roofline, requested bytes": (by_requests, True),
}
"""What the model is held against, and whether it gives times or only an order."""


def coverage(samples: Sequence[Sample], folds: Mapping[str, Constants], key: Key = group_of) -> dict[str, Any]:
    """Return what share of measured times lies in the predicted interval, and how many the model would doubt."""
    inside: dict[str, list[bool]] = {}
    doubted = 0
    for sample in samples:
        found = sample.predicted(folds[key(sample)])
        inside.setdefault(sample.kernel, []).append(found.interval[0] <= sample.time_us <= found.interval[1])
        doubted += disagreement(found, sample.time_us) is not None
    by_kernel = {kernel: round(statistics.mean(hits), 3) for kernel, hits in inside.items()}
    return {"share": round(statistics.mean(by_kernel.values()), 3), "by_kernel": by_kernel, "doubted": doubted}


def refusals(recordings: Sequence[Recording]) -> dict[str, int]:
    """Return how many configurations were refused, and for how many of those no time is predicted."""
    refused = [p for r in recordings for p in r.points if p.time is None]
    silent = [p for p in refused if p.compilation is None or p.compilation.error is not None]
    return {"refused": len(refused), "not_predicted": len(silent)}


def speed(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the time of one prediction from a `Compilation` in ms, the best of three: the median, and the slowest."""
    found = []
    for sample in samples:
        assert sample.point.compilation is not None
        assert sample.point.launch is not None
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            predict(sample.point.compilation, footprint_of(sample.point.launch), sample.spec)
            taken.append((time.perf_counter() - began) * 1e3)
        found.append(min(taken))
    return {"median_ms": round(statistics.median(found), 3), "slowest_ms": round(max(found), 3)}


def lengths(samples: Sequence[Sample], folds: Mapping[str, Constants]) -> list[dict[str, Any]]:
    """Return, for each kernel, how many measurements it takes to come within 5 % of the best, in three orders."""
    found = []
    for place in dict.fromkeys((s.kernel, s.size) for s in samples):
        here = [s for s in samples if (s.kernel, s.size) == place]
        measured = [s.time_us for s in here]
        judged = by_model(folds)
        order = sorted(range(len(here)), key=lambda i: judged(here[i]))
        search: Search = searched([judged(s) for s in here], measured)
        found.append(
            {
                "kernel": place[0], "size": place[1], "configurations": len(here),
                "grid": until_near(range(len(here)), measured),
                "random": round(until_near_at_random(measured), 1),
                "model": until_near(order, measured),
                "search": search.measured, "search_loss": round(search.best / min(measured), 4),
            }
        )  # fmt: skip
    return found


def rounded(score: Score) -> dict[str, Any]:
    """Return a score as JSON, with as many digits as mean something."""
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in dataclasses.asdict(score).items()}


def constants_of(constants: Constants) -> dict[str, float]:
    """Return the fitted constants by name."""
    return {name: float(f"{getattr(constants, name):.6g}") for name in FREE}


def measure(recordings: Sequence[Recording], unseen: Sequence[Recording]) -> dict[str, Any]:
    """Fit, cross-validate and score.

    Raises:
        Unreadable: when too little was timed.
    """
    samples = samples_of(recordings)
    if len({sample.group for sample in samples}) < 2:
        raise Unreadable("fewer than two kernels were timed: none can be left out")
    whole = fit(samples)
    folds = leave_one_out(samples, tell=lambda name: print(f"without {name}", file=sys.stderr))
    families = leave_one_out(samples, family_of)
    about = recordings[0].about
    found = {name: scores(samples, judge, times=times) for name, (judge, times) in BASELINES.items()}
    found = {"model": scores(samples, by_model(folds)), **found}
    fresh = samples_of(unseen)
    return {
        "gpu": about["gpu"],
        "driver": about["driver"],
        "torch": about["torch"],
        "triton": about["triton"],
        "recorded": about["date"],
        "fitted": constants_of(whole),
        "used": constants_of(FITTED),
        "folds": {name: constants_of(one) for name, one in folds.items()},
        "summary": {name: dataclasses.asdict(summary(one)) for name, one in found.items()},
        "not_cross_validated": dataclasses.asdict(summary(scores(samples, by_model(FITTED)))),
        "scores": {name: [rounded(one) for one in some] for name, some in found.items()},
        "interval": coverage(samples, folds),
        "families": {
            "folds": {name: constants_of(one) for name, one in families.items()},
            "summary": dataclasses.asdict(summary(scores(samples, by_model(families, family_of)))),
            "interval": coverage(samples, families, family_of),
        },
        "refusals": refusals(recordings),
        "search": lengths(samples, folds),
        "speed": speed(samples),
        "unseen": {
            "summary": dataclasses.asdict(summary(scores(fresh, by_model(FITTED)))),
            "scores": [rounded(one) for one in scores(fresh, by_model(FITTED))],
            "interval": coverage(fresh, {s.group: FITTED for s in fresh}),
        }
        if fresh
        else None,
    }


def table(found: Mapping[str, Any]) -> str:
    """Write the results as Markdown."""
    lines = [
        "| | rank correlation, median | near-best among the first 8 | measurements, mean | error of time, median |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, one in found["summary"].items():
        error = "–" if one["error"] is None else f"{one['error']:.0%}"
        lines.append(f"| {name} | {one['spearman']:.2f} | {one['found']:.0%} | {one['measurements']:.1f} | {error} |")
    lines += ["", *_by_kernel(found["scores"]["model"], found["interval"]["by_kernel"], found["search"])]
    if found["unseen"]:
        one = found["unseen"]
        total = one["summary"]
        said = (
            f"Unseen: {total['kernels']} kernels at other sizes, {total['configurations']} configurations: rank "
            f"correlation {total['spearman']:.2f}, near-best among the first 8 for {total['found']:.0%}, error "
            f"{total['error']:.0%}, {one['interval']['share']:.0%} in the interval."
        )
        lines += ["", said, "", *_by_kernel(one["scores"], one["interval"]["by_kernel"], ())]
    return "\n".join(lines)


def _by_kernel(
    rows: Sequence[Mapping[str, Any]], inside: Mapping[str, float], search: Sequence[Mapping[str, Any]]
) -> list[str]:
    by_place = {(one["kernel"], one["size"]): one for one in search}
    lines = [
        "| kernel | size | configurations | best to worst, µs | rank | first 8 | error | bias | in interval |"
        + (" grid / random / model |" if search else ""),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |" + (" --- |" if search else ""),
    ]
    for row in rows:
        misses = row["measurements"] > 8 or row["spearman"] < 0.8 or (row["error"] or 0) > 0.35
        name = f"**{row['kernel']}**" if misses else row["kernel"]
        line = (
            f"| {name} | {row['size']} | {row['configurations']} | {row['best_us']:.0f}–{row['worst_us']:.0f} | "
            f"{row['spearman']:.2f} | {row['loss_top'] - 1:.1%} | {row['error']:.0%} | {row['bias']:.2f} | "
            f"{inside[row['kernel']]:.0%} |"
        )
        if one := by_place.get((row["kernel"], row["size"])):
            line += f" {one['grid']} / {one['random']} / {one['model']} |"
        lines.append(line)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="*", default=[RESULTS / "2026-11-30-h200-sweeps-1.jsonl.xz"])
    parser.add_argument("--unseen", type=Path, nargs="*", default=[])
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    try:
        found = measure([read_recording(p) for p in given.recordings], [read_recording(p) for p in given.unseen])
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    print(table(found))
    model = found["summary"]["model"]
    print(
        f"\nInterval: {found['interval']['share']:.0%}. Doubted: {found['interval']['doubted']} of "
        f"{model['configurations']}. One prediction: {found['speed']['median_ms']} ms."
    )
    harder, inside = found["families"]["summary"], found["families"]["interval"]
    print(
        f"Left out with all kernels of its family: rank correlation {harder['spearman']:.2f}, near-best among the "
        f"first 8 for {harder['found']:.0%}, error {harder['error']:.0%}, {inside['share']:.0%} in the interval."
    )
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if all(math.isfinite(v) for v in found["fitted"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
