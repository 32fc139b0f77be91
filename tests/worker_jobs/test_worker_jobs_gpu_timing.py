"""Times on a real GPU: two clocks agree, a hostile host changes nothing, and one kernel is one kernel."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from worker_jobs_lane import changed

from tritonforge.domain.launch import Call, Scalar, Tensor
from tritonforge.domain.messages import MeasureCeilings, Program, Time
from tritonforge.profiling.statistics import ratio_interval, verdict
from tritonforge.worker.failures import JobFailed

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

HOSTILE = """
import gc, threading, time
END = time.monotonic() + 8
def burn():
    while time.monotonic() < END:
        compile("x = [i * i for i in range(100)]\\n" * 50, "noise", "exec")
        gc.collect()
for _ in range(3):
    threading.Thread(target=burn, daemon=True).start()
"""
TOGGLE = """
import torch, triton
import triton.language as tl
@triton.jit
def negate(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, -tl.load(x + i))
def run(x):
    negate[(x.numel() // 256,)](x, BLOCK=256)
"""
COPIED = """
import torch, triton
import triton.language as tl
@triton.jit
def negate(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, -tl.load(x + i))
@triton.jit
def other(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1)
def run(x):
    y = torch.empty_like(x)
    negate[(x.numel() // 1024,)](x, y, BLOCK=1024)
    return y
"""
HUNGRY = """
import torch
def run(x):
    return torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
"""


def tensor(*shape, dtype="float32"):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= extent
    return Tensor(tuple(shape), tuple(strides), dtype)


def shift(n):
    return Call("s", "examples/scale_shift.py", "scale_shift", (tensor(n), tensor(n), Scalar(0.5)))


def medians(lane, call, *programs, clock="auto", samples=30):
    result = lane.do(Time(programs, call, samples=samples, clock=clock))
    assert [p.error for p in result.programs] == [None] * len(programs)
    return [statistics.median(p.launches[0].samples) for p in result.programs], result


def written(folder, text):
    (folder / "k.py").write_text(text)
    return Program(str(folder), "k.py")


@pytest.mark.parametrize("size", [1 << 12, 1 << 20, 1 << 26])
def test_the_two_clocks_agree_but_for_what_a_launch_costs(compile_lane, example, size):
    (records,), by_records = medians(compile_lane, shift(size), example("scale_shift"), clock="cupti")
    (events,), by_events = medians(compile_lane, shift(size), example("scale_shift"), clock="events")
    print(size, records, events, by_records.notes, by_events.notes)  # noqa: T201 - evidence
    assert (by_records.clock, by_events.clock) == ("cupti", "events")
    assert records * 0.97 - 1.0 <= events <= records * 1.03 + 5.0


@pytest.mark.parametrize("clock", ["auto", "events"])
def test_threads_that_compile_and_collect_do_not_stretch_a_time(compile_lane, example, clock):
    quiet = example("scale_shift")
    text = Path(quiet.root, quiet.file).read_text()
    noisy = changed(quiet, (text, text + HOSTILE))
    (calm,), _ = medians(compile_lane, shift(1 << 20), quiet, clock=clock)
    (stormy,), result = medians(compile_lane, shift(1 << 20), noisy, clock=clock)
    print(clock, calm, stormy, result.notes)  # noqa: T201 - evidence
    assert stormy == pytest.approx(calm, rel=0.03, abs=0.3)


@pytest.mark.parametrize("size", [1 << 12, 1 << 22, 1 << 26])
def test_one_kernel_under_two_programs_is_not_called_different(compile_lane, example, size):
    once, again = (
        example("scale_shift"),
        example("scale_shift", ("out = torch.empty_like(x)", "out = torch.empty_like(x) ")),
    )
    result = compile_lane.do(Time((once, again), shift(size), samples=60))
    before, after = (p.launches[0].samples for p in result.programs)
    ratio, interval = ratio_interval(before, after)
    print(size, ratio, interval, result.notes)  # noqa: T201 - evidence
    assert verdict(interval) == "same" or abs(ratio - 1) < 0.03


@pytest.mark.parametrize(
    "more", ["x = x.clone()", "other[(x.numel() // 1024,)](x, BLOCK=1024)"], ids=["a copy", "another kernel"]
)
def test_the_time_of_whole_calls_has_what_host_code_does_beside_the_kernel(compile_lane, tmp_path, more):
    for name, text in (("plain", COPIED), ("more", COPIED.replace("    y = torch", f"    {more}\n    y = torch"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.py").write_text(text)
    programs = tuple(Program(str(tmp_path / name), "k.py") for name in ("plain", "more"))
    call = Call("c", "k.py", "run", (tensor(1 << 26),))
    result = compile_lane.do(Time(programs, call, ("negate",), samples=30, whole=True))
    kernels = [statistics.median(p.launches[0].samples) for p in result.programs]
    wholes = [statistics.median(p.whole) for p in result.programs]
    print(more, kernels, wholes, result.notes)  # noqa: T201 - evidence
    assert kernels[1] == pytest.approx(kernels[0], rel=0.03), "the kernel is the same"
    assert wholes[0] == pytest.approx(kernels[0], rel=0.05, abs=8.0)
    assert wholes[1] - wholes[0] > 0.5 * kernels[0], "the other work moves as many bytes"


def test_whole_calls_that_raise_when_repeated_are_said_and_cost_nothing_else(compile_lane, tmp_path):
    once = COPIED.replace("def run(x):\n", "RUNS = []\ndef run(x):\n    RUNS.append(1)\n    assert len(RUNS) < 4\n")
    call = Call("c", "k.py", "run", (tensor(1 << 20),))
    result = compile_lane.do(Time((written(tmp_path, once),), call, ("negate",), samples=5, whole=True))
    assert result.programs[0].launches[0].samples
    assert result.programs[0].whole == ()
    assert any("whole calls could not be timed: AssertionError" in note for note in result.notes)


def test_a_launch_that_undoes_itself_when_repeated_is_restored_too(compile_lane, tmp_path):
    call = Call("c", "k.py", "run", (tensor(1 << 16),))
    result = compile_lane.do(Time((written(tmp_path, TOGGLE),), call, samples=5))
    assert result.programs[0].launches[0].restored


def test_a_program_too_large_for_the_gpu_is_said_beside_the_others_and_alone_is_a_failure(
    compile_lane, example, tmp_path
):
    call = Call("c", "k.py", "run", (tensor(64),))
    with pytest.raises(JobFailed) as caught:
        compile_lane.do(Time((written(tmp_path, HUNGRY),), call, samples=5))
    assert caught.value.failure.kind == "memory"
    greedy = example(
        "scale_shift", ("return out", "torch.empty(1 << 42, dtype=torch.uint8, device='cuda'); return out")
    )
    result = compile_lane.do(Time((example("scale_shift"), greedy), shift(1 << 12), samples=5))
    assert result.programs[0].launches[0].samples
    assert "ran out of memory" in (result.programs[1].error or "")


def test_ceilings_cover_memory_l2_and_every_type_that_the_gpu_has(compile_lane):
    found = compile_lane.do(MeasureCeilings())
    print(found)  # noqa: T201 - evidence
    assert found.read_gbps is not None
    assert found.l2_gbps is not None
    assert found.copy_gbps * 0.7 < found.read_gbps < found.copy_gbps * 1.5
    assert found.l2_gbps > found.read_gbps
    assert {"fp32", "tf32", "fp16", "bf16"} <= found.tflops.keys()
    assert found.tflops["fp16"] > found.tflops["tf32"] > found.tflops["fp32"]
    if torch.cuda.get_device_capability() >= (9, 0):
        assert found.tflops["fp8"] > found.tflops["fp16"]
        assert "int8" in found.tflops
    assert 0.3 < found.launch_us < 20
