"""A whole program traced without a GPU: forks, spawned processes, pytest, threads, cells, text, kills."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tritonforge.domain.launch import ExactValues
from tritonforge.store import open_store

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "json" / "trace.schema.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The program traced once: what it wrote, how it ended, and what was recorded."""
    root = tmp_path_factory.mktemp("traced")
    for file in (HERE / "programs").iterdir():
        if file.is_file():
            shutil.copy(file, root)
    (root / "tritonforge.toml").touch()
    spools = root / "tmp"
    spools.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "trace", "--", sys.executable, "everything.py"],
        cwd=root, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "TMPDIR": str(spools), "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    report = json.loads((root / ".tritonforge" / "trace.json").read_text())
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    return root, done, report


def launches(run, kernel="add_kernel", n=None):
    found = [one for one in run[2]["launches"] if one["kernel"]["name"] == kernel]
    return [one for one in found if n is None or one["args"]["x_ptr"]["shape"] == [n]]


def count(run, n):
    return sum(one["count"] for one in launches(run, n=n))


def failures(run, kernel):
    return " ".join(one["reason"] for one in run[2]["failures"] if one["kernel"] == kernel)


def test_the_program_ends_as_it_would_and_says_what_it_would(run):
    _, done, _ = run
    assert done.returncode == 5, done.stderr
    out = done.stdout.splitlines()
    assert out[0] == f"{1 << 8} {7 << 8} 9"
    assert "spawned 0 path as ever: True" in out
    assert "pytest 0" in out
    assert "TritonForge trace: 5 kernels" in done.stderr


def test_launches_of_one_kind_are_counted_over_all_processes(run):
    assert count(run, 10) == 4  # three in the program, one in its fork


def test_what_was_launched_before_an_exit_or_a_kill_is_kept(run):
    assert count(run, 30) == 1
    assert count(run, 40) == 1


def test_spawned_processes_and_threads_are_recorded(run):
    assert count(run, 50) == 1
    assert count(run, 55) == 1


def test_the_workers_of_pytest_are_counted_together(run):
    assert count(run, 80) == 4
    assert [count(run, n) for n in range(81, 85)] == [1, 1, 1, 1]


def test_the_backward_is_recorded_too(run):
    assert count(run, 25) == 2


def test_a_training_loop_steps_without_a_gpu(run):
    (forward,) = [o for o in run[2]["launches"] if o["args"].get("n") == 96 and o["args"]["seed"] == 0]
    (backward,) = [o for o in run[2]["launches"] if o["args"].get("n") == 96 and o["args"]["seed"] == 77]
    assert (forward["count"], backward["count"]) == (5, 5)


def test_every_way_to_launch_is_seen(run):
    assert sorted(one["grid"][0] for one in launches(run, n=17)) == [1, 2, 3, 4, 5]


def test_an_autotuned_kernel_is_recorded_with_one_configuration(run):
    (tuned,) = launches(run, "tuned_kernel")
    assert tuned["count"] == 2
    assert tuned["config"]["BLOCK"] == 64
    assert tuned["args"]["EVEN"] is True


def test_launches_that_differ_in_a_seed_alone_do_not_fill_the_table(run):
    assert count(run, 70) == 400
    assert len(launches(run, n=70)) < 50


def test_aliasing_alignment_and_values_that_steer_are_in_the_stored_calls(run):
    root = run[0]
    with open_store(root) as store:
        calls = store.calls_for("traced_kernels.py", "gather_kernel")[0].calls
        (gather,) = [c for c in calls if c.function == "gather"]
        assert isinstance(gather.arguments[1].values, ExactValues)
        aliased = [c for c in store.calls_for("traced_kernels.py", "add_kernel")[0].calls if len(c.arguments) == 2]
        first, second = aliased[0].arguments
    assert (first.buffer, first.offset) == (second.buffer, second.offset - 20)
    assert second.alignment == 16


def test_a_call_holds_its_arguments_as_they_came_in_and_its_launches(run):
    report = run[2]
    by_id = {one["id"]: one for one in report["launches"]}
    adds = [c for c in report["calls"] if c["function"] == "add" and by_id[c["launches"][0]]["args"]["n"] == 10]
    assert [len(c["launches"]) for c in adds] == [1]
    (oddly,) = [c for c in report["calls"] if c["function"] == "oddly"]
    assert [by_id[i]["grid"][0] for i in oddly["launches"]] == [1, 2, 3, 4, 5]


def test_call_sites_are_the_users_lines(run):
    (one,) = launches(run, n=10)
    assert one["call_site"]["file"] == "traced_kernels.py"
    assert one["call_site"]["function"] == "add"


def test_kernels_that_cannot_be_loaded_again_say_why(run):
    assert launches(run, "cell_kernel")
    assert "notebook" in failures(run, "cell_kernel")
    assert launches(run, "text_kernel")
    assert "is gone" in failures(run, "text_kernel")


def test_nothing_is_left_behind(run):
    assert not [p for p in (run[0] / "tmp").iterdir() if "tritonforge" in p.name]


def test_later_commands_find_the_launches(run):
    root = run[0]
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "analyze", "traced_kernels.py::gather_kernel", "--no-run", "--target",
         "offline", "--format", "json"],
        cwd=root, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert [one["args"]["x_ptr"]["shape"] for one in kernel["launches"]] == [[100]]
    assert kernel["compilations"][0]["error"] is None
