"""What the processes of a program leave of their device times, read and added up."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_samples import frame, leave

from tritonforge.workload.gpu_times import read_gpu_times

REAL = (Path(__file__).parents[1] / "data" / "program" / "h200.hatchet").read_text()


def test_every_kernel_of_a_real_run_is_read_with_its_count_and_time(tmp_path):
    leave(tmp_path, "7-1", "complete", REAL)
    times = read_gpu_times(tmp_path)
    assert times.whole
    assert times.gpus == ("NVIDIA H200",)
    assert {name: (one.count, one.time_us) for name, one in times.kernels.items() if not name.startswith("_Z")} == {
        "mm": (20, pytest.approx(958.721)),
        "rowsum": (20, pytest.approx(1249.983)),
    }
    assert len(times.kernels) == 3
    assert times.total_us == pytest.approx(2167.486 + 958.721 + 1249.983)


def test_processes_are_added_up(tmp_path):
    leave(tmp_path, "7-1", "complete", REAL)
    leave(tmp_path, "8-2", "complete", [frame("ROOT", 0, 0, frame("mm", 5, 1000), frame("new", 1, 2000))])
    times = read_gpu_times(tmp_path)
    assert times.processes == 2
    assert times.kernels["mm"].count == 25
    assert times.kernels["mm"].time_us == pytest.approx(959.721)
    assert times.kernels["new"].time_us == pytest.approx(2.0)


def test_kernels_below_scopes_and_graphs_count_once(tmp_path):
    tree = [
        frame("ROOT", 0, 0, frame("step", 3, 9000, frame("mm", 2, 4000), frame("<graph>", 0, 0, frame("mm", 1, 5000))))
    ]
    leave(tmp_path, "7-1", "complete", tree)
    kernels = read_gpu_times(tmp_path).kernels
    assert set(kernels) == {"mm"}
    assert (kernels["mm"].count, kernels["mm"].time_us) == (3, 9.0)


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("running", "", "killed"),
        ("partial", "the program started torch.profiler", "torch.profiler"),
        ("refused", "Proton could not start (no CUPTI)", "no CUPTI"),
    ],
)
def test_a_process_without_whole_times_is_told_and_not_counted(tmp_path, state, reason, said):
    leave(tmp_path, "7-1", state, REAL if state == "partial" else None, reason)
    times = read_gpu_times(tmp_path)
    assert not times.whole
    assert not times.kernels
    assert said in times.reasons[0]


@pytest.mark.parametrize(
    "tree",
    ["", "{", "null", "[]", "[1, 2]", '{"children": []}', "[" * 100_000, '[{"frame": 3, "metrics": [], "children": 4}]',
     '[{"frame": {"name": 1}, "metrics": {"count": "x", "time (ns)": NaN}, "children": []}]',
     '[{"frame": {"name": "k"}, "metrics": {"count": -1, "time (ns)": 1e400}, "children": null}]'],
)  # fmt: skip
def test_a_torn_or_foreign_file_gives_no_times_and_no_error(tmp_path, tree):
    leave(tmp_path, "7-1", "complete", tree)
    assert not read_gpu_times(tmp_path).kernels


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}', '{"pid": 1, "state": "odd"}', "\x00"])
def test_a_torn_note_is_a_process_that_wrote_nothing(tmp_path, text):
    (tmp_path / "7-1.gputime").write_text(text)
    times = read_gpu_times(tmp_path)
    assert (times.whole, times.processes) == (False, 1)


def test_a_program_that_used_no_gpu_has_no_times_and_nothing_missing(tmp_path):
    times = read_gpu_times(tmp_path)
    assert times.whole
    assert not times.kernels
    assert times.processes == 0
