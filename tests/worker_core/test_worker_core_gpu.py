"""Lanes on a real GPU: a kernel that hangs or faults costs its lane and nothing else."""

import asyncio
import time

import pytest
from worker_core_support import failure_of_request, job, worker

from tritonforge.domain.messages import CompareOnDevice, Limits, Program

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no NVIDIA GPU here")
    monkeypatch.setenv("TRITONFORGE_TEST_ZYGOTE", "torch")


def device(action):
    return CompareOnDevice(Program("/", action), Program("/", action), ())


async def lane_of(connected):
    return (await connected.run(device("add"))).outcomes[0].detail


def test_the_device_lane_stays_warm_and_is_not_a_compile_lane():
    async def run():
        async with worker() as connected:
            first = await lane_of(connected)
            start = time.monotonic()
            second = await lane_of(connected)
            took = time.monotonic() - start
            compiling = (await connected.run(job("pid"))).output
            return first, second, took, compiling

    first, second, took, compiling = asyncio.run(run())
    assert first == second != compiling
    assert took < 0.5


def test_a_kernel_that_never_ends_is_killed_and_the_gpu_is_free_for_the_next_job():
    async def run():
        async with worker() as connected:
            before = await lane_of(connected)
            failure = await failure_of_request(connected, device("hang"), Limits(seconds=2))
            start = time.monotonic()
            after = await lane_of(connected)
            return before, failure.kind, after, time.monotonic() - start

    before, kind, after, waited = asyncio.run(run())
    assert kind == "timeout"
    assert before != after
    assert waited < 15


def test_a_fault_on_the_device_costs_the_lane():
    async def run():
        async with worker() as connected:
            before = await lane_of(connected)
            failure = await failure_of_request(connected, device("fault"))
            return before, failure.kind, await lane_of(connected)

    before, kind, after = asyncio.run(run())
    assert kind == "cuda-error"
    assert before != after


def test_leaving_the_block_while_a_kernel_hangs_takes_no_longer_than_two_seconds():
    async def run():
        async with worker() as connected:
            launched = asyncio.Event()
            hanging = asyncio.create_task(connected.run(device("hang"), on_progress=lambda *_: launched.set()))
            await launched.wait()
            await asyncio.sleep(0.5)
            hanging.cancel()
            start = time.monotonic()
        return time.monotonic() - start

    assert asyncio.run(run()) < 2.2
