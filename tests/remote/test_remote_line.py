"""A line that delays, throttles, stalls and is cut: what is lost, what comes back, and what still gets through."""

import asyncio
import os
import time

import pytest
from remote_support import MARK, Door, Line, assert_nothing_left, far, job, over

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.launch import Call, ExactValues, Tensor
from tritonforge.domain.messages import Compile, Describe, Program
from tritonforge.jobs.client import Heartbeat
from tritonforge.jobs.remote import Patience

PROGRAM = Program("/nowhere", "f.py")


@pytest.fixture
def line(home, mark):
    """A line to a far side on this machine; nothing may be left there afterwards."""
    door = Door(home, **{MARK: mark})
    carried = Line(door.port)
    yield carried
    carried.stalled.clear()
    carried.close()
    door.close()
    assert_nothing_left(mark)


def large_call(size):
    return Call("c", "f.py", "f", (Tensor((size,), (1,), "int8", values=ExactValues(os.urandom(size))),))


def test_after_a_cut_only_the_jobs_under_way_are_done_again(line, workspace, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"
    said = []

    async def run():
        async with far(over(line.port)) as worker:
            first = (await worker.run(job(workspace, "import kernels"))).output
            running = asyncio.Event()

            def progress(text, _):
                said.append(text)
                running.set()

            under_way = asyncio.create_task(worker.run(job(workspace, f"wait {begun}|{go}"), on_progress=progress))
            await running.wait()
            line.cut()
            while len(begun.read_text().split()) < 2:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)
            go.touch()
            return first, (await under_way).output, (await worker.run(job(workspace, "echo later"))).output, worker

    first, second, third, worker = asyncio.run(run())
    assert (first, second, third) == ("1", "went on", "later")
    assert worker.reconnections == 1
    assert line.count == 2
    assert any("is lost; trying again" in text for text in said)


def test_a_line_that_does_not_come_back_is_given_up_with_the_reason(line, workspace):
    async def run():
        async with far(over(line.port), patience=Patience(0.05, 0.1, whole=0.5)) as worker:
            running = asyncio.create_task(worker.run(job(workspace, "sleep 60")))
            await asyncio.sleep(0.3)
            line.closed = True
            line.cut()
            with pytest.raises(TargetUnreachable) as caught:
                await running
            with pytest.raises(TargetUnreachable):
                await worker.run(job(workspace, "echo x"))
            return str(caught.value)

    assert "Target 'far'" in asyncio.run(run())


def test_a_job_that_costs_the_connection_each_time_is_not_repeated_for_ever(line, workspace, tmp_path):
    begun = tmp_path / "begun"

    async def run():
        async with far(over(line.port)) as worker:
            with pytest.raises(TargetUnreachable):
                await worker.run(
                    job(workspace, f"wait {begun}|{tmp_path / 'never'}"), on_progress=lambda *_: line.cut()
                )

    asyncio.run(run())
    assert 1 <= len(begun.read_text().split()) <= 3


def test_a_dead_line_is_noticed_by_both_ends(line, workspace, mark):
    beat = Heartbeat(every=0.2, patience=4.0, silence=8.0)  # a busy machine may take a second for anything

    async def run():
        async with far(over(line.port), heartbeat=beat, patience=Patience(0.05, 0.1, whole=0.3)) as worker:
            await worker.run(job(workspace, "echo x"))
            running = asyncio.create_task(worker.run(job(workspace, "sleep 60")))
            await asyncio.sleep(0.3)
            line.closed = True
            line.stalled.set()
            with pytest.raises(TargetUnreachable):
                await running

    asyncio.run(run())
    # Nothing reaches the far side any more, not even an end: it ends by itself.
    assert_nothing_left(mark, seconds=30)


def test_a_line_that_only_pauses_costs_nothing(line, workspace):
    beat = Heartbeat(every=0.1, patience=10.0, silence=60.0)

    async def run():
        async with far(over(line.port), heartbeat=beat) as worker:
            running = asyncio.create_task(worker.run(job(workspace, "sleep 0.3")))
            line.stalled.set()
            await asyncio.sleep(0.8)
            line.stalled.clear()
            await running
            return worker.reconnections

    assert asyncio.run(run()) == 0


def test_a_cancel_passes_a_hundred_megabytes_going_up(line, workspace):
    line.rate = 4e6

    async def run():
        async with far(over(line.port), files=False) as worker:
            running = asyncio.Event()
            spinning = asyncio.create_task(worker.run(job(workspace, "spin"), on_progress=lambda *_: running.set()))
            await running.wait()
            upload = asyncio.create_task(worker.run(Compile(PROGRAM, large_call(100_000_000), "sm_90")))
            while line.carried[0] < 2e6:  # noqa: ASYNC110 - other threads carry it
                await asyncio.sleep(0.02)
            spinning.cancel()
            # The lane is free again as soon as the cancel has arrived; the upload holds up neither it nor the next job.
            begun = time.monotonic()
            answer = (await worker.run(job(workspace, "echo free"))).output
            waited = time.monotonic() - begun
            upload.cancel()
            await asyncio.wait([upload])
            after = time.monotonic()
            await worker.run(job(workspace, "echo and the upload is over"))
            return answer, waited, time.monotonic() - after

    answer, waited, after = asyncio.run(run())
    assert answer == "free"
    assert waited < 10, "25 s are what the whole of it takes"
    assert after < 10


def test_a_cancel_ends_a_hundred_megabytes_coming_down(line, workspace):
    async def run():
        async with far(over(line.port)) as worker:
            await worker.run(job(workspace, "echo x"))
            line.rate = 4e6
            download = asyncio.create_task(worker.run(job(workspace, "large 100000000")))
            while line.carried[1] < 2_000_000:  # noqa: ASYNC110 - other threads carry it
                await asyncio.sleep(0.02)
            download.cancel()
            begun = time.monotonic()
            await worker.run(job(workspace, "echo next"))
            return time.monotonic() - begun, line.carried[1]

    waited, carried = asyncio.run(run())
    assert waited < 10
    assert carried < 60_000_000


def test_large_and_small_go_both_ways_at_once_over_a_long_line(line, workspace):
    line.delay = 0.05

    async def run():
        async with far(over(line.port)) as worker:
            call = large_call(3_000_000)
            up = [worker.run(Compile(PROGRAM, call, "sm_90")) for _ in range(2)]
            down = [worker.run(job(workspace, "large 3000000")) for _ in range(2)]
            small = [worker.run(job(workspace, f"echo {number}")) for number in range(20)]
            done = await asyncio.gather(*up, *down, *small)
            return (
                [one.output for one in done[:2]],
                [len(one.calls[0].arguments[0].values.data) for one in done[2:4]],
                [one.output for one in done[4:]],
            )

    up, down, small = asyncio.run(run())
    assert up == ["3000000"] * 2
    assert down == [3_000_000] * 2
    assert small == [str(number) for number in range(20)]


def test_a_job_costs_one_round_trip_where_its_files_are_there(line, workspace):
    line.delay = 0.5

    async def run():
        async with far(over(line.port)) as worker:
            await worker.run(job(workspace, "echo warm"))
            took = []
            for _ in range(3):
                begun = time.monotonic()
                await worker.run(job(workspace, "echo x"))
                took.append(time.monotonic() - begun)
            (workspace / "kernels.py").write_text("VALUE = 2\n")
            begun = time.monotonic()
            changed = (await worker.run(job(workspace, "import kernels"))).output
            return min(took), changed, time.monotonic() - begun

    took, changed, after_an_edit = asyncio.run(run())
    assert took < 1.95, "two round trips are 2 s"
    assert changed == "2"
    assert after_an_edit < 2.95, "what has changed goes with the job"


def test_another_machine_is_not_taken_for_the_one_that_was_lost(home, workspace, tmp_path, mark):
    gpu = tmp_path / "gpu"
    gpu.write_text("NVIDIA H200")
    door = Door(home, TRITONFORGE_TEST_GPU_FILE=str(gpu), **{MARK: mark})
    line = Line(door.port)

    async def run():
        async with far(over(line.port)) as worker:
            await worker.run(Describe())
            gpu.write_text("NVIDIA L4")
            line.cut()
            with pytest.raises(TargetUnreachable) as caught:
                await asyncio.gather(*(worker.run(job(workspace, f"sleep {seconds}")) for seconds in (0.1, 20)))
            return str(caught.value)

    try:
        text = asyncio.run(run())
    finally:
        line.close()
        door.close()
    assert "came back as another machine" in text
    assert "NVIDIA L4" in text
    assert_nothing_left(mark)
