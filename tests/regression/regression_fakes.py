"""A GPU that is none: times come from a stated distribution, so that decisions can be tested (a simulation, not a measurement)."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import random
from types import SimpleNamespace

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.baseline import Baseline, BaselineEntry, GpuState, Runs
from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import LookAtGpu, Time, TimedLaunch, TimedProgram, TimeResult
from tritonforge.domain.target import GpuInfo, Target, WorkerInfo
from tritonforge.jobs.session import Session
from tritonforge.regression.checking import Check
from tritonforge.regression.judging import Options
from tritonforge.regression.measuring import BASELINE_RUNS
from tritonforge.regression.subjects import Checked, site_hash
from tritonforge.report import wording
from tritonforge.workload.launches import problem_id, to_launch
from tritonforge.workload.subject import Subject

GPU = "NVIDIA H200"
SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def run(x):
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out
"""
CHANGED = SOURCE.replace("BLOCK=1024", "BLOCK=512").replace("x.numel(), 1024", "x.numel(), 512")
SLOWER = "# slower"
"""A program whose text says so takes `FakeGpu.slowdown` times as long."""


WELL = GpuState(1980, 1980, 2619, 45, 0.0, 0)


@dataclasses.dataclass
class FakeGpu:
    """Times of one launch: `time_us`, times the machine's own factor, times noise from run to run and within a run."""

    time_us: float = 30.0
    slowdown: float = 1.05
    machine: float = 1.0
    run_sd: float = 0.0025
    sample_sd: float = 0.005
    tick_us: float = 0.032
    seed: int = 0
    state: GpuState = WELL
    error: str | None = None
    asked: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.hello = SimpleNamespace(lanes=1)
        self.on, self.answered, self.at_once = [], 0, 0

    async def run(self, request, *, limits=None, on_progress=None, priority=0, gpu=None):
        self.asked.append(request)
        self.on.append(gpu)
        self.at_once = max(self.at_once, len(self.asked) - self.answered)
        try:
            await asyncio.sleep(0)
            return self.answer(request)
        finally:
            self.answered += 1

    def answer(self, request):
        if isinstance(request, LookAtGpu):
            return self.state
        assert isinstance(request, Time)
        shared = self.random.gauss(0, self.run_sd)  # what disturbs a run disturbs all programs in it
        programs = []
        for program in request.programs:
            text = dict(program.overlays)["k.py"]
            slow = self.slowdown if SLOWER in text else 1.0
            own = math.exp(shared + self.random.gauss(0, self.run_sd / 3))
            middle = self.time_us * self.machine * slow * own
            samples = tuple(
                max(
                    self.tick_us,
                    round(middle * math.exp(self.random.gauss(0, self.sample_sd)) / self.tick_us) * self.tick_us,
                )
                for _ in range(request.samples)
            )
            block = 512 if "BLOCK=512" in text else 1024
            error = self.error if SLOWER in text else None
            programs.append(TimedProgram((TimedLaunch(launch(block), samples),) if not error else (), error))
        return TimeResult(tuple(programs), (), "cupti")


def launch(block=1024):
    x = Tensor((1 << 20,), (1,), "float32")
    return RecordedLaunch(
        "k.py", "scale", 6, (("x_ptr", x), ("out_ptr", x), ("n", Scalar(1 << 20))), (("BLOCK", Scalar(block)),),
        (("num_warps", Scalar(4)), ("num_stages", Scalar(3))), (-(-(1 << 20) // block), 1, 1), CallSite("k.py", 14, "run"),
    )  # fmt: skip


CALL = Call("c", "k.py", "run", (Tensor((1 << 20,), (1,), "float32"),), launches=(launch(),))


def session(gpu, *, triton="3.7.1", driver="580.1", gpus=1):
    info = WorkerInfo(
        PROTOCOL_VERSION,
        "3.11",
        "python",
        "linux",
        "2.13.0",
        triton,
        2,
        1,
        (GpuInfo(GPU, "sm_90", 132, 1 << 37, driver),) * gpus,
    )
    return Session(Target("local"), gpu, info, "sm_90", measures=True)


def checked(text=SOURCE, block=1024, compiled=None):
    """Return the kernel of `text`, as a check has it after compiling."""
    (kernel,) = analyze(text, "k.py").kernels
    subject = Subject("/w", "k.py", text, kernel, (CALL,))
    workload = SimpleNamespace(settings=load_nothing(), analysis=SimpleNamespace(file="k.py"))
    one = Checked(workload, subject, texts={"k.py": text})
    made = to_launch(kernel, launch(block))
    problem = problem_id(kernel, made.problem)
    one.entries[problem, "sm_90"] = BaselineEntry(
        "k.py", "scale", problem, wording.plain_problem(made), "sm_90", kernel.code_hash, site_hash(kernel, subject),
        {"BLOCK": block, "num_warps": 4}, made.config.grid, GPU, {"triton": "3.7.1", "driver": "580.1"}, "2026-11-30",
        compiled=compiled or {"registers": 20, "spill_bytes": 0, "shared_bytes": 0, "occupancy": 1.0, "predicted_us": 29.0},
        findings={},
    )  # fmt: skip
    return one


def load_nothing():
    from pathlib import Path

    return load(Path("/nowhere"), environment={})


async def baseline_of(gpu, one=None):
    """Return the baseline that `--update` would write."""
    one = one or checked()
    check = Check(session(gpu), None, Baseline(), Options())
    check.kernels = [one]
    await measure(check, BASELINE_RUNS)
    return check.updated()


async def measure(check, runs):
    from tritonforge.regression.measuring import measure_all

    check.times = await measure_all(check.kernels, check.session, runs=runs)
    for one in check.kernels:
        for key, entry in one.entries.items():
            versions = {"triton": check.session.info.triton, "driver": check.session.info.driver}
            one.entries[key] = dataclasses.replace(
                entry, time=check.times.of(one, key[0]), state=check.times.state, versions=versions
            )


async def compared(baseline, gpu, one, options=None, **session_options):
    """Return the one comparison of `one` with `baseline` on `gpu`."""
    check = Check(session(gpu, **session_options), None, baseline, options or Options(gate=False))
    check.kernels = [one]
    await measure(check, check.options.runs)
    (found,) = await check.compare()
    return found


def runs(*medians, samples=30):
    return Runs(tuple(medians), samples)
