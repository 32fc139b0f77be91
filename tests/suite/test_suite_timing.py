"""Times of whole functions are complete or refused, and comparators are told what they reached and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch in this environment")
pytest.importorskip("triton", reason="needs triton in this environment")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from suite.timing import whole_durations

from suite import comparators
from tritonforge.worker.timing.records import NoRecords

pytestmark = pytest.mark.triton


def scope(number, *kernels):
    children = [kernel(*one) for one in kernels]
    return {"frame": {"name": f"tritonforge-{number}"}, "metrics": {}, "children": children}


def kernel(name, microseconds, count=1):
    return {"frame": {"name": name}, "metrics": {"count": count, "time (ns)": microseconds * 1e3}, "children": []}


def tree(*scopes):
    return [{"frame": {"name": "ROOT"}, "metrics": {"count": 0}, "children": list(scopes)}]


def test_the_time_of_a_call_is_the_sum_over_its_kernels():
    root = tree(scope(0, ("gemm", 5.0), ("add", 2.0)), scope(1, ("mine", 3.0)), kernel("flush", 50.0))
    assert whole_durations(root, ["theirs", "ours"]) == pytest.approx([7.0, 3.0])


def test_a_call_of_which_a_kernel_s_record_is_missing_spoils_the_measurement():
    root = tree(scope(0, ("gemm", 5.0), ("add", 2.0)), scope(1, ("gemm", 5.0)))
    with pytest.raises(NoRecords, match="not complete"):
        whole_durations(root, ["theirs", "theirs"])


def test_a_call_without_any_record_spoils_the_measurement():
    with pytest.raises(NoRecords, match="ours"):
        whole_durations(tree(scope(0, ("gemm", 5.0))), ["theirs", "ours"])


class Versions:
    """Versions whose time is known; some do not run."""

    def __init__(self, times):
        self.times = times
        self.configs = [{"BLOCK": 2**i} for i in range(len(times))]
        self.running = None

    def __len__(self):
        return len(self.times)

    def __getitem__(self, number):
        def run():
            if self.times[number] is None:
                raise RuntimeError("it does not compile")
            self.running = number

        return run

    def measure(self, function):
        function()
        return self.times[self.running]


def test_triton_s_own_autotuner_chooses_among_versions():
    versions = Versions([4.0, None, 1.0, 2.0])
    found = comparators.triton_autotune(
        versions, (), 60.0, do_bench=lambda call, quantiles: [versions.measure(call) / 1e3] * 3
    )
    assert (found.best, found.tried, found.failed, found.stopped) == (2, 3, 1, "all were tried")
    assert [number for _, number in found.steps] == [0, 2]


def test_triton_s_autotuner_ends_with_its_time(monkeypatch):
    versions, now = Versions([4.0, 3.0, 2.0, 1.0]), [0.0]
    monkeypatch.setattr(comparators, "perf_counter", lambda: now[0])

    def slowly(call, quantiles):
        value = versions.measure(call)
        now[0] += 6.0
        return [value] * 3

    found = comparators.triton_autotune(versions, (), 10.0, do_bench=slowly)
    assert found.steps == [(6.0, 0), (12.0, 1)]
    assert found.stopped == "after 10 s, 2 versions left"


def test_versions_that_all_fail_have_no_winner():
    found = comparators.triton_autotune(Versions([None, None]), (), 60.0, do_bench=lambda call, quantiles: call())
    assert found.best is None


@pytest.mark.parametrize("optuna", [True, False])
def test_a_search_without_guidance_finds_the_best_of_a_small_grid(monkeypatch, optuna):
    if optuna:
        pytest.importorskip("optuna")
    else:
        monkeypatch.setitem(sys.modules, "optuna", None)
    versions = Versions([4.0, None, 1.0, 2.0])
    found = comparators.unguided(versions, (), 60.0, versions.measure)
    assert (found.best, found.failed) == (2, 1)
    assert ("Optuna (TPE)" in found.name) is optuna
    assert ("random" in found.name) is not optuna


ENDINGS = """
import os, subprocess, sys, time
sys.path.append(sys.argv[1])
from suite import measuring  # noqa: E402

measuring.adopt_orphans()
child = os.fork()
if child == 0:
    os.setsid()
    subprocess.Popen(["sleep", "61"], start_new_session=True)
    time.sleep(60)
print(measuring._wait(child, 2.0))
print(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read() or "nothing is left")
child = os.fork()
if child == 0:
    os._exit(3)
print(measuring._wait(child, 60.0))
"""


def test_a_job_ends_with_its_time_and_leaves_no_process_and_one_that_dies_says_so():
    done = subprocess.run(
        [sys.executable, "-c", ENDINGS, str(Path(__file__).parents[2] / "benchmarks")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "measuring took longer than 2 s",
        "nothing is left",
        "the measuring process ended with 3",
    ], done.stderr
