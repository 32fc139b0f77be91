"""Several GPUs of one target: one piece of work each, side by side, and what is made of an interruption."""

import asyncio
import dataclasses

import pytest

from tritonforge.domain.messages import MeasureCeilings
from tritonforge.domain.target import GpuInfo, Target
from tritonforge.jobs.session import Session
from tritonforge.jobs.spreading import sessions_of, spread
from tritonforge.targets import FAKE_WORKER

H200, L4 = GpuInfo("H200", "sm_90", 132, 1 << 37), GpuInfo("L4", "sm_89", 58, 1 << 34)


class Asked:
    """A worker that remembers on which GPU it was asked to run what."""

    def __init__(self):
        self.gpus = []
        self.hello = FAKE_WORKER

    async def run(self, request, *, gpu=None, **_):
        self.gpus.append(gpu)
        return request


def session_with(*gpus, measures=True):
    described = dataclasses.replace(FAKE_WORKER, gpus=gpus)
    return Session(Target("t"), Asked(), described, "sm_90", measures)


def test_a_session_for_each_gpu_of_one_kind():
    session = session_with(H200, L4, H200)
    spreads = sessions_of(session)
    asyncio.run(asyncio.wait_for(_ask_all(spreads), 5))
    assert session.worker.gpus == [(0, 3), (2, 3)]
    assert sessions_of(session_with(H200)) == (session_with(H200),) or len(sessions_of(session_with(H200))) == 1
    assert len(sessions_of(session_with(H200, H200, measures=False))) == 1


async def _ask_all(sessions):
    for one in sessions:
        await one.worker.run(MeasureCeilings())


def test_work_is_spread_and_never_two_pieces_on_one_gpu():
    now, seen = set(), []

    async def work(item, session):
        gpu = session.worker._gpu
        assert gpu not in now
        now.add(gpu)
        seen.append(len(now))
        await asyncio.sleep(0.01 * (item % 3))
        now.discard(gpu)
        return item * 10

    results = asyncio.run(spread(range(9), session_with(H200, H200), work))
    assert results == [item * 10 for item in range(9)]
    assert max(seen) == 2


def test_the_first_exception_ends_the_others():
    ended = []

    async def work(item, session):
        if item == 1:
            raise ValueError("one")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(item)
            raise

    with pytest.raises(ValueError, match="one"):
        asyncio.run(spread([0, 1, 2, 3], session_with(H200, H200), work))
    assert 0 in ended
    assert 3 not in ended


def test_an_interruption_keeps_what_work_under_way_makes_of_it():
    async def work(item, session):
        if item == 0:
            return "done"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
            return "best so far"

    async def run():
        task = asyncio.create_task(spread(range(5), session_with(H200, H200), work))
        await asyncio.sleep(0.05)
        task.cancel()
        return await task

    results = asyncio.run(run())
    assert results[:3] == ["done", "best so far", "best so far"]
    assert results[3:] == [None, None]


def test_an_interruption_that_leaves_nothing_is_one():
    async def run():
        task = asyncio.create_task(spread([1], session_with(H200, H200), lambda *_: asyncio.sleep(60)))
        await asyncio.sleep(0.02)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert asyncio.run(spread([], session_with(H200), lambda *_: None)) == []
