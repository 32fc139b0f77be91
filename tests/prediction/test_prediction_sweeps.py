"""The recorded sweeps, predicted again: the published scores hold, for kernels that the constants were not fitted to.

`benchmarks/results` holds the recording and the output of `benchmarks/bench_prediction.py` with the constants of every
fold. Nothing is compiled, and no GPU is needed.
"""

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from sweeps.accuracy import by_model, by_occupancy, by_requests, by_roofline, scores, summary, until_near_at_random
from sweeps.data import lines_of, read_recording
from sweeps.fit import family_of, fit, samples_of
from sweeps.reread import Different, reread
from sweeps.search import searched

from tritonforge.optimize.choosing import PER_ROUND
from tritonforge.prediction.constants import FITTED, FREE, START
from tritonforge.prediction.model import HIGHEST, LOWEST, RELATIVE_LOWEST

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "benchmarks" / "results" / "2026-11-30-h200-sweeps-1.jsonl.xz"
PUBLISHED = json.loads((ROOT / "benchmarks" / "results" / "2026-11-30-h200-prediction.json").read_text("utf-8"))


@cache
def samples():
    return samples_of([read_recording(RECORDING)])


@cache
def folds():
    return {kernel: replace(START, **constants) for kernel, constants in PUBLISHED["folds"].items()}


@cache
def cross_validated():
    return scores(samples(), by_model(folds()))


def test_kernels_that_were_left_out_are_predicted_as_well_as_was_asked_for():
    found = summary(cross_validated())
    assert found.kernels >= 26
    assert found.spearman >= 0.8
    assert found.found >= 0.8
    assert found.error <= 0.35


def test_the_published_scores_are_those_of_the_model_as_it_is():
    found = summary(cross_validated())
    for name in ("spearman", "found", "error", "measurements"):
        assert getattr(found, name) == pytest.approx(PUBLISHED["summary"]["model"][name], rel=1e-3), name
    for row, score in zip(PUBLISHED["scores"]["model"], cross_validated(), strict=True):
        assert row["kernel"] == score.kernel
        assert row["spearman"] == pytest.approx(score.spearman, abs=1e-3)


def test_a_fold_is_what_fitting_without_its_kernel_gives():
    # Started where it ended: it stays there, and would move if its kernel had been among what was fitted.
    name = "matmul_kernel"  # three of the sweeps are this function with other types and layouts
    without = [s for s in samples() if s.group != name]
    assert len({s.kernel for s in samples()} - {s.kernel for s in without}) == 3
    found = fit(without, start=START, begin=folds()[name])
    for constant in FREE:
        assert getattr(found, constant) == pytest.approx(getattr(folds()[name], constant), rel=0.03), constant


def test_kernels_whose_whole_family_was_left_out_are_predicted_nearly_as_well():
    families = {name: replace(START, **constants) for name, constants in PUBLISHED["families"]["folds"].items()}
    assert families.keys() == {"attention", "elementwise", "movement", "products", "reductions"}
    found = summary(scores(samples(), by_model(families, family_of)))
    for name in ("spearman", "found", "error"):
        assert getattr(found, name) == pytest.approx(PUBLISHED["families"]["summary"][name], rel=1e-3), name
    assert found.spearman >= 0.8
    assert found.found >= 0.8
    assert found.error <= 0.35
    without = [s for s in samples() if s.family != "products"]
    again = fit(without, begin=families["products"])
    for constant in FREE:
        assert getattr(again, constant) == pytest.approx(getattr(families["products"], constant), rel=0.03), constant


def test_the_constants_that_were_scored_are_those_in_use():
    for constant in FREE:
        assert getattr(FITTED, constant) == PUBLISHED["used"][constant], constant


def test_the_constants_in_use_are_those_that_all_kernels_give_rounded():
    for constant in FREE:
        assert getattr(FITTED, constant) == pytest.approx(PUBLISHED["fitted"][constant], rel=5e-3), constant


def test_both_baselines_are_far_worse():
    model = summary(cross_validated())
    for judge, times in ((by_occupancy, False), (by_roofline, True), (by_requests, True)):
        other = summary(scores(samples(), judge, times=times))
        assert other.spearman < model.spearman - 0.3
        assert other.found < model.found - 0.3
        assert not times or other.error > 2 * model.error


def test_the_interval_holds_what_it_says_for_kernels_that_were_left_out():
    inside = {}
    relative = []
    for sample in samples():
        found = sample.predicted(folds()[sample.group])
        assert found.interval == pytest.approx((found.time_us * LOWEST, found.time_us * HIGHEST), rel=1e-6)
        inside.setdefault(sample.kernel, []).append(found.interval[0] <= sample.time_us <= found.interval[1])
    assert sum(map(sum, inside.values())) / len(samples()) >= 0.93
    assert min(sum(hits) / len(hits) for hits in inside.values()) >= 0.7
    for kernel, hits in inside.items():
        here = [s for s in samples() if s.kernel == kernel]
        ratios = sorted(s.time_us / s.predicted(folds()[s.group]).time_us for s in here)
        relative += [ratio / ratios[len(hits) // 2] for ratio in ratios]
    assert sum(ratio >= RELATIVE_LOWEST for ratio in relative) / len(relative) >= 0.94


def test_a_search_in_predicted_order_is_shorter_than_at_random_on_most_kernels_and_finds_the_best():
    shorter, losses = 0, []
    for kernel in dict.fromkeys(s.kernel for s in samples()):
        here = [s for s in samples() if s.kernel == kernel]
        measured = [s.time_us for s in here]
        predicted = [s.predicted(folds()[s.group]).time_us for s in here]
        order = sorted(range(len(here)), key=lambda i: predicted[i])
        best = min(measured)
        model = next(n for n, i in enumerate(order, 1) if measured[i] <= 1.05 * best)
        shorter += model < until_near_at_random(measured)
        found = searched(predicted, measured)
        assert found.measured <= PER_ROUND
        losses.append(found.best / best)
    assert shorter >= 20
    assert max(losses) < 1.05


def test_nothing_is_predicted_for_what_a_gpu_refuses():
    refused = [p for p in read_recording(RECORDING).points if p.time is None]
    assert len(refused) >= 40
    assert all(p.compilation is None or p.compilation.error for p in refused)


def test_a_recording_keeps_its_times_only_with_the_same_compilations(tmp_path):
    import lzma

    lines = [line for line in lines_of(RECORDING) if line.get("kernel") in {None, "histogram"}]

    def write(name, some):
        path = tmp_path / name
        path.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in some).encode()))
        return path

    whole = write("a.xz", lines)
    assert [line.get("time") for line in reread(whole, whole)] == [line.get("time") for line in lines]
    other = json.loads(json.dumps(lines))
    next(line for line in other if line.get("compilation"))["compilation"]["resources"]["registers"] += 1
    with pytest.raises(Different, match="compiles to something else"):
        list(reread(whole, write("b.xz", other)))
    with pytest.raises(Different, match="triton was"):
        list(reread(whole, write("c.xz", [{**lines[0], "triton": "3.7.1"}, *lines[1:]])))
