"""The loop on a target that measures, replayed: compiling and interpreting are real, times were recorded on an H200.

`tests/data/h200/optimize_examples.json` is the output of `benchmarks/optimize_examples.py` there. What is tested is what
the loop does with measured times, not the times.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import shutil
import statistics
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import Settings
from tritonforge.diagnosis.assessment import Yardstick
from tritonforge.diagnosis.profile_kernel import profile
from tritonforge.domain.messages import Compare, CompareOnDevice, Time, TimedLaunch, TimedProgram, TimeResult
from tritonforge.domain.target import GpuInfo
from tritonforge.jobs.session import open_session
from tritonforge.optimize import optimize
from tritonforge.prediction import gpu_for
from tritonforge.rewrite import default_engines
from tritonforge.workload.specs import parse_spec
from tritonforge.workload.subject import Subject

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

ROOT = Path(__file__).resolve().parents[2]
RECORDED = json.loads((ROOT / "tests" / "data" / "h200" / "optimize_examples.json").read_text())
ORIGINAL = (ROOT / "examples" / "matmul.py").read_text()
FIELDS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")


def recorded_times() -> dict[str, float]:
    """Median µs on the H200 by candidate title, the original under an empty title."""
    (result,) = RECORDED["runs"][0]["results"]
    times = {t["title"]: statistics.median(t["time_us"].values()) for t in result["trials"] if t["time_us"]}
    return {**times, "": statistics.median(result["baseline"]["time_us"].values())}


class Replay:
    """A worker that compiles and interprets for real and answers jobs for a GPU from what was recorded on one."""

    def __init__(self, worker, times, noise=0.005):
        self.worker, self.times, self.noise = worker, times, noise
        self.hello = worker.hello
        self.timed: list[str] = []
        self._compiled: dict[str, tuple] = {}

    async def run(self, request, **options):
        if isinstance(request, CompareOnDevice):
            # The recorded call at full size is the GPU's alone: it would take hours to interpret.
            inputs = tuple(call for call in request.inputs if call.arguments == () and _small(call))
            request = Compare(request.original, request.candidate, inputs, request.tolerance, request.stop_at_first)
        if isinstance(request, Time):
            return await self._time(request)
        return await self.worker.run(request, **options)

    async def _time(self, request):
        from tritonforge.domain.messages import Compile

        programs = []
        for program in request.programs:
            text = program.overlays[0][1]
            if text not in self._compiled:
                compiled = await self.worker.run(Compile(program, request.call, "sm_90", artefacts=()))
                self._compiled[text] = compiled.launches
            # The recording knows launch parameters alone: another structure is not the original.
            title = _title(text) or ("" if text == ORIGINAL else "another structure")
            self.timed.append(title)
            median = self.times.get(title)
            if median is None:
                programs.append(TimedProgram((), "not recorded"))
                continue
            generator = random.Random(title)
            row = tuple(median * (1 + generator.gauss(0, self.noise)) for _ in range(request.samples))
            programs.append(TimedProgram(tuple(TimedLaunch(one.launch, row) for one in self._compiled[text])))
        return TimeResult(tuple(programs))


def _small(call) -> bool:
    return all(max(value.shape) < 1000 for _, value in call.keywords)


def _title(text: str) -> str:
    values = {name: re.search(rf"{name}=(\d+)", text) for name in FIELDS}
    if values["num_warps"] is None:
        return ""
    return ", ".join(f"{name}={found[1]}" for name, found in values.items() if found)


class Few:
    """The rule engine, asked for its first few proposals only."""

    origin = "rule"

    def __init__(self, count):
        self.count = count

    def propose(self, task, trials=()):
        if not trials:
            (engine,) = default_engines()
            for index, proposal in enumerate(engine.propose(task, trials)):
                if index < self.count:
                    yield proposal


def replayed(tmp_path, times, noise, work):
    """Do `work(subject, session, judge)` with the example matmul on a target that replays; return it and the target."""
    shutil.copy(ROOT / "examples" / "matmul.py", tmp_path)
    text = (tmp_path / "matmul.py").read_text()
    (kernel,) = analyze(text, "matmul.py").kernels
    call = parse_spec("a=fp16[4096, 4096] b=fp16[4096, 4096]", file="matmul.py", function="matmul")
    subject = Subject(str(tmp_path), "matmul.py", text, kernel, (call,))
    spec = gpu_for("sm_90", "H200")
    judge = Yardstick(spec, dataclasses.replace(spec.ceilings, provenance="measured", tflops={"fp16": 764.8}))

    async def go():
        async with open_session(Settings(tmp_path), "offline") as session:
            gpu = GpuInfo("NVIDIA H200", "sm_90", 132, 150 << 30, "580.159.04")
            replay = Replay(session.worker, times, noise)
            described = dataclasses.replace(session.described, gpus=(gpu,))
            pretended = dataclasses.replace(session, worker=replay, described=described, measures=True)
            return await work(subject, pretended, judge), replay

    return asyncio.run(go())


def run(tmp_path, times, count=5, noise=0.005):
    return replayed(
        tmp_path, times, noise, lambda subject, session, judge: optimize(subject, session, judge, [Few(count)])
    )


def test_the_fastest_measured_candidate_that_passes_the_gate_is_suggested(tmp_path):
    times = recorded_times()
    result, replay = run(tmp_path, times)
    tried = {t.candidate.title: times[t.candidate.title] for t in result.trials if t.candidate.title in times}
    fastest = min(tried, key=tried.__getitem__)
    assert len(tried) >= 3
    assert result.best.trial.candidate.title == fastest
    assert result.best.provenance == "measured"
    assert result.best.speedup == pytest.approx(times[""] / times[fastest], rel=0.02)
    low, high = result.best.speedup_ci95
    assert 1.0 < low <= result.best.speedup <= high
    assert result.best.trial.verdict.accepted
    assert replay.timed.count("") >= 3, "the original is measured beside every batch and again at the end"


def test_a_gain_that_is_noise_is_not_suggested(tmp_path):
    times = dict.fromkeys(recorded_times(), 1000.0)
    result, _ = run(tmp_path, times, count=3, noise=0.03)
    assert result.best is None
    assert result.stopped_because == "nothing improved"


def test_candidates_that_cannot_be_timed_are_dropped_with_the_reason(tmp_path):
    result, _ = run(tmp_path, {"": 1000.0}, count=2)
    assert result.best is None
    assert {t.reason for t in result.trials} == {"not recorded"}


def test_a_profile_is_told_before_counting_begins_and_timed_once(tmp_path):
    told = []

    def work(subject, session, judge):
        return profile(
            subject,
            session,
            judge,
            counters="auto",
            on_timed=lambda result, _: told.append((result, len(session.worker.timed))),
        )

    times = recorded_times()
    (result, _), replay = replayed(tmp_path, times, 0.005, work)
    (((first,), timed),) = ((early.profiles, n) for early, n in told)
    (last,) = result.profiles
    assert timed == len(replay.timed) == 1
    assert first.time_us == last.time_us
    assert first.time_us.median == pytest.approx(times[""], rel=0.02)
    assert any("not counted yet" in sentence for sentence in first.missing)
    assert not any("not counted yet" in sentence for sentence in last.missing), "by then it is known why"
    assert any("hardware counters" in sentence for sentence in last.missing)


def test_a_time_that_the_model_cannot_believe_is_told_with_the_profile_and_the_search(tmp_path):
    times = {title: 30 * us for title, us in recorded_times().items()}
    (result, _), _ = replayed(
        tmp_path, times, 0.005, lambda subject, session, judge: profile(subject, session, judge, counters="none")
    )
    (profiled,) = result.profiles
    assert any("where the time model expects at most" in note for note in profiled.notes)
    searched, _ = run(tmp_path, times, count=1)
    assert any(note.startswith("Measured ") and "expects at most" in note for note in searched.notes)
    winner = searched.best.trial.candidate.title
    assert any(note.startswith(f"{winner}: Measured ") and "expects at most" in note for note in searched.notes)
    (believed, _), _ = replayed(
        tmp_path,
        recorded_times(),
        0.005,
        lambda subject, session, judge: profile(subject, session, judge, counters="none"),
    )
    assert not any("time model expects" in note for note in believed.profiles[0].notes)
