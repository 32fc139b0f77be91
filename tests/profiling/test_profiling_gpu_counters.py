"""Counters on a real GPU: what Nsight Compute and Proton give through our own jobs, and how they end."""

import asyncio
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.diagnosis.assessment import assess, yardstick
from tritonforge.diagnosis.counting import CountersRefused, target_key, with_counters
from tritonforge.diagnosis.doctor import examine
from tritonforge.domain.errors import TritonForgeError
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Count, Limits
from tritonforge.jobs.session import open_session
from tritonforge.store import open_store
from tritonforge.workload.subject import Subject

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rows(x, o, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * N + i, mask=i < N, other=0.0)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(o + r * N + i, v / tl.sum(v, 0), mask=i < N)


@triton.jit
def add_into(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def softmax(x):
    o = torch.empty_like(x)
    rows[(x.shape[0],)](x, o, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return o


def bump(x):
    for _ in range(3):
        add_into[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x


def hang(x):
    import time
    time.sleep(600)


def fail(x):
    raise ValueError("not today")
"""
MATRIX = Tensor((4096, 4000), (4000, 1), "float32")
TEXT_LINES = SOURCE.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("counted")
    (place / "tritonforge.toml").write_text("")
    (place / "kernels.py").write_text(SOURCE)
    return place


def subject(folder: Path, kernel: str, function: str) -> Subject:
    kernels = {one.name: one for one in analyze(SOURCE, "kernels.py").kernels}
    return Subject(
        str(folder), "kernels.py", SOURCE, kernels[kernel], (Call(function, "kernels.py", function, (MATRIX,)),)
    )


async def run_everything(folder: Path, store) -> dict[str, object]:
    """One session for all: starting one and each run under Nsight Compute cost seconds."""
    found: dict[str, object] = {}
    async with open_session(load(folder), "local") as session:

        async def attempt(name, work):
            try:
                found[name] = await work
            except TritonForgeError as error:
                found[name] = error

        async def counters(kernel, function, level, kept=None):
            wanted = subject(folder, kernel, function)
            assessed = await assess(session, wanted.program(), wanted.kernel, wanted.calls, yardstick(session))
            return await with_counters(wanted, session, assessed, level, kept)

        def count(function, level, budget_s=60.0):
            wanted = subject(folder, "rows", function)
            request = Count(wanted.program(), wanted.calls[0], ("rows",), level, budget_s=budget_s)
            return session.worker.run(request, limits=Limits(seconds=90, memory_bytes=64 << 30))

        await attempt("rows", counters("rows", "softmax", "auto", store))
        await attempt("bump", counters("add_into", "bump", "ncu"))
        await attempt("sampled", counters("rows", "softmax", "pcsampling"))
        await attempt("failing", count("fail", "ncu"))
        await attempt("hanging", count("hang", "pcsampling", budget_s=12.0))
        await attempt("after", count("softmax", "pcsampling"))
        found["access"] = store.counter_access(target_key(session))
    return found


@pytest.fixture(scope="module")
def found(folder, tmp_path_factory):
    return asyncio.run(run_everything(folder, open_store(tmp_path_factory.mktemp("store"))))


def given(found, name):
    outcome = found[name]
    if isinstance(outcome, CountersRefused):
        pytest.skip(str(outcome))
    assert not isinstance(outcome, Exception), outcome
    return outcome


def test_nsight_compute_counts_a_launch_and_its_lines(found):
    counted = given(found, "rows")
    if counted.source != "ncu":
        pytest.skip("; ".join(counted.missing))
    (one,) = counted.assessed
    counters = one.case.counters
    assert counters.grid == (4096, 1, 1)
    assert counters.metrics["global_sectors"] == pytest.approx(2 * 4 * 4096 * 4000 / 32, rel=0.01)
    assert 0.05 < counters.metrics["dram_throughput"] <= 1
    assert sum(counters.stalls.values()) == pytest.approx(1.0)
    first, last = one.case.kernel.range.start.line, one.case.kernel.range.end.line
    assert counters.lines
    assert all(first <= line <= last for line in counters.lines)
    (loads,) = (n for n, text in enumerate(TEXT_LINES, 1) if "v = tl.load(x + r" in text)
    assert counters.lines[loads].sectors > 0
    assert one.bottleneck.provenance == "measured"


def test_a_launch_that_changes_its_input_is_counted_once(found):
    (one,) = given(found, "bump").assessed
    assert one.case.counters.metrics["global_sectors"] == pytest.approx(2 * 4 * 4096 * 4000 / 32, rel=0.01)


def test_proton_samples_stalls_without_nsight(found):
    sampled = given(found, "sampled")
    counters = sampled.assessed[0].case.counters
    assert sampled.source == counters.source == "pcsampling"
    assert sum(counters.stalls.values()) == pytest.approx(1.0)
    assert any("only Nsight Compute" in sentence for sentence in sampled.missing)


def test_the_best_level_is_remembered(found):
    counted = given(found, "rows")
    if found["access"] is not None:  # a refusal that may pass is not kept
        assert found["access"].level == counted.source


def test_a_program_that_fails_says_so_and_not_that_counters_are_refused(found):
    failing = found["failing"]
    if not isinstance(failing, Exception):
        pytest.skip(failing.refused)
    assert "not today" in str(failing)


def test_a_program_that_hangs_under_the_profiler_is_ended_and_the_next_one_works(found):
    assert "did not end in time" in given(found, "hanging").refused
    after = given(found, "after")
    assert after.launches or after.refused


def test_doctor_tries_every_level(folder):
    checks = {check.name: check for check in asyncio.run(examine(load(folder), "local")).checks}
    assert checks["times"].ok
    assert "hardware counters" in checks or not checks["Nsight Compute"].ok
    assert "stall sampling" in checks
    assert all(check.mend for check in checks.values() if not check.ok)
