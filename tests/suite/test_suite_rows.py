"""Rows of the benchmark suite: made in shards, kept at once, never twice, and counted as the targets are worded."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch in this environment")
pytest.importorskip("triton", reason="needs triton in this environment")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from suite.timeline import Timeline

from suite import run, table
from tritonforge.optimize import Step

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.triton


def best(speedup=2.0, *, verified=True):
    return {
        "title": "BLOCK=512", "speedup": speedup, "speedup_ci95": [speedup - 0.1, speedup + 0.1],
        "provenance": "measured", "verified": verified,
    }  # fmt: skip


def plain(name="k", *, before=100.0, after=None, reference=50.0, roof=40.0, problem="", verified=True, seconds=10.0):
    """Return a row: a plain version of `before` µs, and a suggestion of `after` µs if there is one."""
    times = {"plain": {"median": before}, "cuBLAS": {"median": reference}, table.MAX_AUTOTUNE: {"median": 1.0}}
    samples = {"plain": [before] * 20}
    if after:
        times["TritonForge"], samples["TritonForge"] = {"median": after}, [after] * 20
    found = {"kernel": name, "seconds": seconds, "stopped_because": "nothing improved"}
    correct = {"TritonForge": {"inputs": 2, "problem": problem}}
    return {
        "part": "a", "name": name, "family": "matmul", "target": "local", "work": [{"roofline_us": roof}],
        "searches": [{**found, "best": best(verified=verified) if after else None}],
        "measured": {"calls": [{"times_us": times, "samples_us": samples, "unavailable": {}}], "correct": correct},
    }  # fmt: skip


def shipped(name, speedup=None, interval=None, problem=""):
    row = {"part": "b", "name": name, "family": "norm", "target": "local",
           "searches": [{"kernel": name, "seconds": 20.0, "stopped_because": "", "best": None}]}  # fmt: skip
    if speedup:
        row["searches"][0]["best"] = best(speedup)
        row["again"] = {"speedup": speedup, "speedup_ci95": interval or [speedup - 0.05, speedup + 0.05]}
        row["correct"] = {"inputs": 2, "problem": problem}
    return row


def said(rows, start):
    (line,) = [one for one in table.targets(rows) if one.startswith(start)]
    return line


def test_a_kernel_is_near_when_it_has_90_percent_of_the_best_reference_or_of_the_roofline():
    assert table.near(plain(reference=50.0, roof=10.0), 55.0) is True
    assert table.near(plain(reference=50.0, roof=10.0), 56.0) is False
    assert table.near(plain(reference=10.0, roof=50.0), 55.0) is True
    assert table.near(plain(), None) is None


@pytest.mark.parametrize(
    ("plain_error", "ours", "wrong"), [(0.02, 0.02, False), (0.02, 0.04, True), (None, 0.02, True), (2.0, 2.0, True)]
)
def test_a_version_is_wrong_where_it_is_further_off_than_the_tolerance_and_than_the_plain_version(
    plain_error, ours, wrong
):
    row = plain(after=50.0, problem=f"output 0 is off by {ours}")
    row["measured"]["correct"]["TritonForge"]["worst_error"] = ours
    if plain_error is not None:
        off = {"inputs": 2, "worst_error": plain_error, "problem": f"output 0 is off by {plain_error}"}
        row["measured"]["correct"]["plain"] = off
    assert bool(table.problem_of(row)) is wrong
    assert table.successful(row) is not wrong


def test_the_best_reference_is_the_fastest_one_and_neither_ours_nor_max_autotune():
    row = plain(after=20.0)
    row["measured"]["calls"][0]["times_us"]["torch.compile"] = {"median": 45.0}
    assert table.best_reference(row) == ("torch.compile", 45.0)


def test_a_kernel_without_a_suggestion_counts_with_its_plain_time():
    rows = [plain("a", after=50.0), plain("b", before=51.0), plain("c")]
    assert "2 of 3 = 67% (target ≥ 80%: missed)" in said(rows, "(a) ≥ 90 %")


def test_success_is_counted_among_kernels_with_headroom_alone():
    rows = [plain("a", after=50.0), plain("b", before=51.0), plain("c")]
    assert "1 of 2 = 50% (target ≥ 90%: missed)" in said(rows, "(a) ≥ 1.05x")


@pytest.mark.parametrize(
    "row",
    [plain(after=97.0), plain(after=50.0, problem="output 0 is off"), plain(after=50.0, verified=False)],
    ids=["too little", "wrong", "not verified"],
)
def test_what_is_no_success(row):
    assert not table.successful(row)
    assert table.successful(plain(after=50.0))


def test_a_kernel_that_could_not_be_timed_is_missed_and_said():
    row = plain("a")
    row["measured"]["calls"] = []
    rows = [row, plain("b", after=50.0)]
    assert "1 of 2" in said(rows, "(a) ≥ 90 %")
    assert "1 kernels have no time" in said(rows, "(a) 1 kernels")


def test_shipped_kernels_without_a_suggestion_count_as_one():
    rows = [shipped("a", 1.21), shipped("b")]
    assert "1.100x (target ≥ 1.10x: met)" in said(rows, "(b) geometric mean")
    assert "0 (target 0: met)" in said(rows, "(b) slower")


def test_a_suggestion_that_turns_out_slower_is_counted():
    assert "1 (target 0: missed)" in said([shipped("a", 0.9), shipped("b", 1.2)], "(b) slower")


def test_wrong_results_are_counted_in_both_parts_and_named():
    rows = [plain("a", after=50.0, problem="output 0 is off"), shipped("b", 1.5, problem="output 1 is off")]
    assert said(rows, "Wrong results").startswith("Wrong results: 2 (target 0: missed): a, b")


def test_a_suggestion_that_nothing_was_compared_with_is_said():
    row = plain("a", after=50.0)
    del row["measured"]["correct"]["TritonForge"]
    assert "1 of 1 suggestions could not be compared" in said([row], "Wrong results")
    assert not table.successful(row)


def test_seconds_are_those_of_every_search():
    rows = [plain(str(i), seconds=float(i)) for i in range(1, 101)]
    assert "median 50.5 (target ≤ 25: missed)" in said(rows, "Seconds a kernel: median")
    assert "percentile 95.0 (target ≤ 90: missed)" in said(rows, "Seconds a kernel: 95th")


def test_failed_searches_are_printed_with_their_reason(tmp_path, capsys, monkeypatch):
    row = plain("k")
    row["searches"] = [{"kernel": "k", "failed": "NoLaunchKnown", "reason": "nothing runs it", "seconds": 1.0}]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["table.py", str(path)])
    assert table.main() == 0
    printed = capsys.readouterr().out
    assert "Searches that failed: 1: k." in printed
    assert "NoLaunchKnown: nothing runs it" in printed


def test_what_else_tuned_a_kernel_and_what_has_no_time_is_printed(tmp_path, capsys, monkeypatch):
    row = plain("k", after=50.0)
    call = row["measured"]["calls"][0]
    call["times_us"][table.OFFLINE] = {"median": 70.7}
    call["unavailable"] = {"liger-kernel": "ModuleNotFoundError: it is not installed"}
    row["grid"] = "100 combinations of BLOCK"
    row["offline_suggested"] = True
    row["measured"]["comparators"] = {
        "triton.autotune": {
            "grid": 100, "tried": 90, "failed": 10, "seconds": 80.0, "stopped": "all were tried", "final_us": 55.0,
            "ours_us": 50.0, "plain_us": 100.0, "config": {"BLOCK": 512}, "same_speed_after_s": None,
        }
    }  # fmt: skip
    other = {**plain("other", after=50.0), "offline_suggested": False}
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (row, other, shipped("b"))), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["table.py", str(path)])
    assert table.main() == 0
    printed = capsys.readouterr().out
    assert "triton.autotune: 1 kernels; its final version takes 1.10x the time of TritonForge's" in printed
    assert "of the measured gain on 2 kernels (in logarithms) its suggestions reach 25% once" in printed
    assert "| never | 80 | 90 of 100 | all were tried |" in printed
    assert "liger-kernel: ModuleNotFoundError: it is not installed" in printed
    assert "torch.compile, max-autotune: 2 kernels" in printed


def test_the_times_of_several_calls_are_added():
    row = plain(after=50.0)
    row["work"] *= 2
    row["measured"]["calls"] *= 2
    assert table.time_of(row, "plain") == 200.0
    assert table.roofline_of(row) == 80.0
    assert table.speedup_of(row)[0] == pytest.approx(2.0)


def test_shards_are_a_partition():
    options = run.parser().parse_args(["-o", "x", "--shard", "1/7"])
    every = [one[1] for i in range(1, 8) for one in chosen(options, (i, 7))]
    assert sorted(every) == sorted(one[1] for one in chosen(options, (1, 1)))


def chosen(options, shard):
    options.shard = shard
    return run.chosen(options)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0"])
def test_a_shard_that_does_not_exist_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="is not I/N"):
        run.shard(text)


def test_a_line_that_was_cut_off_is_made_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    run.append(path, {"name": "a", "target": "local"})
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"name": "b", "tar')
    run.append(path, {"name": "c", "target": "local"})
    assert run.already(path, "local") == {"a", "c"}
    assert run.already(path, "offline") == set()
    assert [row["name"] for row in table.read([path])[1]] == ["a", "c"]


def test_a_row_has_the_first_and_the_last_step_of_each_stage_in_each_round():
    timeline = Timeline()
    for stage, number, done in (
        ("compile", 1, 1), ("compile", 1, 2), ("verify", 1, 0), ("compile", 1, 3), ("compile", 2, 1), ("verify", 2, 0),
    ):  # fmt: skip
        timeline(Step(stage, "x", done, 3 if done else 0, round=number))
    assert [(stage, detail) for _, stage, detail in timeline.rows()] == [
        ("compile", "round 1: 1/3 x"), ("verify", "round 1: x"), ("compile", "round 1: 3/3 x"),
        ("compile", "round 2: 1/3 x"), ("verify", "round 2: x"),
    ]  # fmt: skip
    assert timeline.rows() == sorted(timeline.rows(), key=lambda row: row[0])


def test_a_kernel_on_which_the_suite_itself_breaks_is_a_row_too(tmp_path, monkeypatch):
    async def breaks(*_arguments):
        raise ConnectionError("the worker is gone")

    monkeypatch.setattr(run, "plain_row", breaks)
    options = run.parser().parse_args(["-o", "x", "--only", "softmax"])
    ((part, name, case),) = run.chosen(options)
    row, sound = asyncio.run(run.row_of(None, part, name, case, tmp_path, options, None))
    assert not sound
    assert row["searches"][0]["reason"] == "the worker is gone"
    assert "Searches that failed: 1: softmax." in list(table.targets([row]))
    assert "the worker is gone" in run.line_of(row)


def test_a_run_makes_a_row_with_everything_and_none_twice(tmp_path):
    path = tmp_path / "rows.jsonl"
    command = [
        sys.executable, str(ROOT / "benchmarks" / "suite" / "run.py"), "-o", str(path), "--target", "offline",
        "--budget", "4", "--only", "quantize",
    ]  # fmt: skip
    first = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert first.returncode == 0, first.stderr
    environments, (row,) = table.read([path])
    assert environments[0]["environment"]["arch"] == "sm_90"
    assert row["part"] == "a"
    assert row["searches"][0]["kernel"] == "quantize_kernel"
    assert row["searches"][0]["stopped_because"]
    assert row["searches"][0]["timeline"][0][1:] == ["assess", "round 0: compiling quantize_kernel"]
    assert row["work"][0]["bytes"] == 3 * 16384 * 5120 + 4 * 16384
    again = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert "1 of them have a row already" in again.stdout
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


def test_what_a_driver_returns_is_compared_with_the_original_s(tmp_path):
    for folder, by in (("original", 2.0), ("edited", 2.1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "package.py").write_text(f"def scaled(x):\n    return x * {by}\n", encoding="utf-8")
        (tmp_path / folder / "drive.py").write_text(
            "import torch\nfrom package import scaled\n\n"
            "def run():\n    x = torch.randn(100)\n    return x * 3, scaled(x), 'no tensor'\n",
            encoding="utf-8",
        )
    done = subprocess.run(
        [sys.executable, "-m", "suite.outputs", str(tmp_path / "original"), str(tmp_path / "edited"), "drive"],
        capture_output=True, text=True, timeout=200, check=False, env=run.environment(),
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["inputs"] == 2
    assert found["problem"].startswith("output 1 is off by 0.0")
