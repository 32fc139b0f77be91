"""A worker under fire: each job that goes wrong is one typed failure in bounded time, and nothing else is harmed."""

import asyncio
import time
from pathlib import Path

import pytest
from worker_core_support import assert_nothing_left, failure_of, is_running, job, marked, named, new_mark, until, worker


@pytest.fixture
def mark(monkeypatch):
    return new_mark(monkeypatch)


def fire(**options):
    return worker(handlers="worker_core_fire_handlers", **options)


def ended_but_not_buried(mark):
    """Processes below this test's supervisor that nobody has waited for."""
    supervisor = named(mark, "tf-supervisor")
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state == "Z" and int(parent) == supervisor:
                found.append(folder.name)
    return found


@pytest.mark.parametrize("action", ["stop", "deaf-child", "stopped-child"])
def test_what_no_longer_answers_is_one_timeout_and_its_processes_are_gone(action, mark):
    async def run():
        async with fire(lanes=2) as connected:
            neighbour = asyncio.create_task(connected.run(job("sleep 0.6")))
            before = time.monotonic()
            failure = await failure_of(connected, action, seconds=0.4)
            took = time.monotonic() - before
            after = (await connected.run(job("echo next"))).output
            await neighbour
            alive = {pid for pid, command in marked(mark) if b"signal.signal" in command}
            gone = await until(lambda: not any(is_running(pid) for pid in alive))
            buried = await until(lambda: ended_but_not_buried(mark) == [])
            return failure, took, after, gone, buried

    failure, took, after, gone, buried = asyncio.run(run())
    assert failure.kind == "timeout"
    assert took < 3
    assert after == "next"
    assert gone
    assert buried
    assert_nothing_left(mark)


def test_orphans_that_are_stopped_and_deaf_do_not_outlive_their_job(mark):
    async def run():
        async with fire() as connected:
            await connected.run(job("echo x"))
            kept = {pid for pid, _ in marked(mark)}
            assert (await connected.run(job("orphans 5"))).output == "left them"
            await connected.run(job("echo x"))
            # A lane may be replaced by another one: one process more at most.
            gone = await until(lambda: len({pid for pid, _ in marked(mark)} - kept) <= 1)
            return gone, await until(lambda: ended_but_not_buried(mark) == [])

    assert asyncio.run(run()) == (True, True)
    assert_nothing_left(mark)


def test_children_that_nobody_waited_for_are_buried_with_their_lane(mark):
    async def run():
        async with fire() as connected:
            await connected.run(job("zombies 20"))
            failure = await failure_of(connected, "killed")
            return failure.kind, await until(lambda: ended_but_not_buried(mark) == [])

    assert asyncio.run(run()) == ("crashed", True)
    assert_nothing_left(mark)


def test_a_job_ended_by_its_own_alarm_says_which_signal(mark):
    async def run():
        async with fire() as connected:
            return await failure_of(connected, "alarm")

    failure = asyncio.run(run())
    assert failure.kind == "crashed"
    assert "SIGALRM" in failure.message


def test_under_a_barrage_every_job_gets_its_own_answer_and_the_good_ones_their_result(mark):
    bad = {
        "stop": "timeout",
        "spin": "timeout",
        "stopped-child": "timeout",
        "segfault": "crashed",
        "exit 3": "crashed",
        "killed": "crashed",
        "raise": "internal",
        "fail cuda-error": "cuda-error",
        "hog": "memory",
        "sys-exit 1": "user-error",
    }

    async def run():
        async with fire(lanes=4) as connected:
            limits = {"seconds": 1.0, "memory_bytes": 150 << 20}
            failing = [failure_of(connected, action, **limits) for action in bad]
            good = [connected.run(job(f"echo {number}")) for number in range(20)]
            start = time.monotonic()
            failures, results = await asyncio.gather(asyncio.gather(*failing), asyncio.gather(*good))
            return failures, results, time.monotonic() - start, await until(lambda: ended_but_not_buried(mark) == [])

    failures, results, took, buried = asyncio.run(run())
    assert dict(zip(bad, (failure.kind for failure in failures), strict=True)) == bad
    assert [result.output for result in results] == [str(number) for number in range(20)]
    assert took < 15
    assert buried
    assert_nothing_left(mark)


def test_a_stopped_lane_that_is_cancelled_frees_its_place_at_once(mark):
    async def run():
        async with fire(lanes=1) as connected:
            stopping = asyncio.Event()
            stopped = asyncio.create_task(connected.run(job("stop"), on_progress=lambda *_: stopping.set()))
            await stopping.wait()
            stopped.cancel()
            start = time.monotonic()
            output = (await connected.run(job("echo next"))).output
            return output, time.monotonic() - start

    output, waited = asyncio.run(run())
    assert output == "next"
    assert waited < 2
    assert_nothing_left(mark)
