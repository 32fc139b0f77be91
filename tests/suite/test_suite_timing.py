"""Times of whole functions are complete or refused, and comparators are told what they reached and when."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch in this environment")
pytest.importorskip("triton", reason="needs triton in this environment")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from suite.loading import PLAIN
from suite.searching import Search, space_of
from suite.timing import whole_durations

from suite import comparators, timing
from tritonforge.analysis import analyze
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.worker.timing.records import NoRecords
from tritonforge.workload.subject import Subject

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


class Device:
    """A GPU that runs nothing: functions say what they would have run, and a profiler that keeps it, or loses some."""

    def __init__(self, monkeypatch, *, loses=()):
        self.loses, self.scope, self.scopes, self.calls = set(loses), None, {}, []
        monkeypatch.setattr(timing, "Bench", lambda: self)
        monkeypatch.setattr(timing, "Health", lambda: SimpleNamespace(look=lambda: None, notes=lambda: ["it is well"]))
        monkeypatch.setattr(timing, "recording", self.recording)

    def function(self, name, *kernels):
        def run():
            self.calls.append(name)
            self.taken = sum(microseconds for _, microseconds in kernels)
            if self.scope is not None and len(self.scopes) not in self.loses:
                self.scopes.setdefault(self.scope, []).extend(kernels)

        return run

    def queue(self, launch, before, around=None):
        before()
        with around or contextlib.nullcontext():
            launch()
        return SimpleNamespace(between_us=self.taken + 4.0, flush_us=50.0, clock_mhz=1800.0, late=False)

    def empty_readings(self):
        return [1.0, 1.0, 1.0]

    def wait(self):
        pass

    @contextlib.contextmanager
    def recording(self):
        tape = SimpleNamespace(around=self.around, root=None)
        yield tape
        tape.root = tree(*(scope(place, *kernels) for place, kernels in self.scopes.items()))

    @contextlib.contextmanager
    def around(self, place):
        self.scope = place
        yield
        self.scope = None


def test_functions_take_turns_and_are_timed_by_the_device_s_own_records(monkeypatch):
    device = Device(monkeypatch)
    functions = {
        "theirs": device.function("theirs", ("gemm", 50.0), ("add", 20.0)),
        "ours": device.function("ours", ("mine", 40.0)),
    }
    found = timing.time_side_by_side(functions, 8, 60.0)
    assert found.samples == {"theirs": (70.0,) * 8, "ours": (40.0,) * 8}
    assert found.clock == "cupti"
    assert "it is well" in found.notes
    rounds = [set(device.calls[i : i + 2]) for i in range(len(device.calls) - 16, len(device.calls), 2)]
    assert rounds == [{"theirs", "ours"}] * 8


def test_short_functions_are_called_several_times_for_a_sample(monkeypatch):
    device = Device(monkeypatch)
    found = timing.time_side_by_side({"short": device.function("short", ("mine", 1.0))}, 5, 60.0)
    assert found.samples == {"short": (1.0,) * 5}
    assert len(device.scopes) > 5


def test_events_take_the_place_of_records_that_are_not_complete_and_it_is_said(monkeypatch):
    device = Device(monkeypatch, loses={3})
    functions = {"ours": device.function("ours", ("mine", 40.0))}
    found = timing.time_side_by_side(functions, 8, 60.0)
    assert found.clock == "events"
    assert found.samples == {"ours": (43.0,) * 8}  # what lies between the events, less an empty interval
    assert any("not complete" in note for note in found.notes)


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


def search_of(name, *, grid, **values):
    """Return a search that knows one launch of a plain kernel."""
    text = (PLAIN / f"{name}.py").read_text(encoding="utf-8")
    (kernel,) = analyze(text, f"{name}.py").kernels
    config = Config((("BLOCK", Scalar(values["BLOCK"])),), (("num_warps", Scalar(4)), ("num_stages", Scalar(3))), grid)
    problem = Problem((("x_ptr", Tensor((8192, 16384), (16384, 1), "float32")), ("cols", Scalar(16384))))
    site = CallSite(f"{name}.py", kernel.launch_sites[0].range.start.line, name)
    launch = Launch("1", f"{name}.py", kernel.name, problem, config, site)
    return Search({}, SimpleNamespace(launches=(launch,)), Subject("/", f"{name}.py", text, kernel))


def test_comparators_choose_among_versions_that_differ_in_parameters_alone(tmp_path):
    space, said = space_of(search_of("sum_rows", grid=(8192, 1, 1), BLOCK=256), "sm_90")
    assert said == f"{len(space.configs)} combinations of BLOCK, num_warps, num_stages"
    assert len({tuple(sorted(config.items())) for config in space.configs}) == len(space.configs) > 50
    assert {"BLOCK": 256, "num_warps": 4, "num_stages": 3} not in space.configs  # that is the plain version
    number = next(i for i, one in enumerate(space.configs) if one["BLOCK"] == 2048 and one["num_warps"] == 8)
    travelled = pickle.loads(pickle.dumps(space))
    assert travelled.configs == space.configs
    versions = comparators.Versions(travelled, tmp_path / "versions", "sum_rows")
    assert callable(versions[number])
    text = (tmp_path / "versions" / f"version_{number}.py").read_text(encoding="utf-8")
    assert "2048" in text
    assert "num_warps=8" in text


def test_what_has_no_space_says_why():
    assert space_of(Search({}), "sm_90") == (None, "TritonForge knows no launch of it")


ENDINGS = """
import os, subprocess, sys, time
sys.path.append(sys.argv[1])
from suite import measuring

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
