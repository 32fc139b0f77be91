"""The real worker on a real GPU, when a kernel or its host breaks it: one typed failure, and the GPU works again."""

import asyncio
import time
from pathlib import Path

import pytest
from worker_core_support import assert_nothing_left, failure_of_request, new_mark

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Limits, Program, Time
from tritonforge.domain.target import Target
from tritonforge.jobs import connect
from tritonforge.profiling.measuring import measure
from tritonforge.targets import ProcessTransport

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

KERNEL = """
import ctypes, torch, triton
import triton.language as tl

@triton.jit{options}
def kernel(x, far, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    {body}
    tl.store(x + i, 2 * tl.load(x + i))

def run(x):
    {inside}
    kernel[(1,)](x, 1 << 40, BLOCK=64)
"""
FOREVER = """first = tl.load(x, volatile=True)
    while first < 1.0e30:
        first = tl.load(x, volatile=True)"""
CALL = Call("c", "k.py", "run", (Tensor((64,), (1,), "float32"),))
GPU_IS_BACK_S = 20.0
"""Within how long the next job must have its result: a new process, its CUDA context, compiling and measuring."""

BREAKING = {
    "an illegal memory access": ({"body": "tl.store(x + far + i, 0.0)"}, "cuda-error"),
    "a device-side assert": ({"options": "(debug=True)", "body": "tl.device_assert(i < 0, 'never')"}, "cuda-error"),
    "too little memory": ({"inside": "torch.empty(1 << 42, dtype=torch.uint8, device='cuda')"}, "memory"),
    "a kernel that never ends": ({"body": FOREVER}, "timeout"),
    "a host that never ends": ({"inside": "while True: pass"}, "timeout"),
    "a host that crashes": ({"inside": "ctypes.string_at(0)"}, "crashed"),
}


def program(folder, *, body="pass", inside="pass", options=""):
    folder.mkdir(exist_ok=True)
    Path(folder, "k.py").write_text(KERNEL.format(body=body, inside=inside, options=options))
    return Program(str(folder), "k.py")


@pytest.fixture
def mark(monkeypatch):
    return new_mark(monkeypatch)


def local():
    target = Target("fire")
    return connect(target, transport=ProcessTransport(target, {"warm": ["compile"]}), timeout=60.0)


def test_whatever_breaks_the_gpu_is_one_typed_failure_and_the_next_job_is_measured(mark, tmp_path):
    async def run():
        failures, waits, times = {}, {}, []
        async with local() as connected:
            good = Time((program(tmp_path / "good"),), CALL, samples=5)
            times.append(await connected.run(good))
            for number, (name, (source, _)) in enumerate(BREAKING.items()):
                request = Time((program(tmp_path / str(number), **source),), CALL, samples=5)
                limits = Limits(8.0 if "never" in name else 60.0, 64 << 30)
                start = time.monotonic()
                failures[name] = await failure_of_request(connected, request, limits)
                failed = time.monotonic()
                times.append(await connected.run(good))
                waits[name] = (failed - start, time.monotonic() - failed)
        return failures, waits, times

    failures, waits, times = asyncio.run(run())
    for name, (to_fail, to_recover) in waits.items():
        print(f"{name}: {failures[name].kind} after {to_fail:.1f} s, GPU back after {to_recover:.1f} s")  # noqa: T201
    assert {name: failure.kind for name, failure in failures.items()} == {n: kind for n, (_, kind) in BREAKING.items()}
    assert max(to_recover for _, to_recover in waits.values()) < GPU_IS_BACK_S
    assert all(result.programs[0].launches[0].samples for result in times)
    assert_nothing_left(mark, seconds=10.0)


def test_a_candidate_that_breaks_the_gpu_does_not_take_the_others_times_with_it(mark, tmp_path):
    good = program(tmp_path / "good")
    bad = program(tmp_path / "bad", body="tl.store(x + far + i, 0.0)")

    async def run():
        async with local() as connected:
            found, _ = await measure(
                connected, [good, bad, good], [CALL],
                kernel="kernel", identify=lambda recorded: recorded.kernel, samples=10, budget_s=5.0,
            )  # fmt: skip
            return found

    original, broken, other = asyncio.run(run())
    assert len(original.total()) == len(other.total()) == 10
    assert broken.error is not None
    assert "GPU" in broken.error
    assert_nothing_left(mark, seconds=10.0)
