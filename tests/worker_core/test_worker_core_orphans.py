"""However a worker's parent, or any part of it, dies: no process is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worker_core_support import HERE, assert_nothing_left, failure_of, job, marked, named, new_mark, worker

from tritonforge.domain.errors import TargetUnreachable

CLIENT = f"""
import asyncio, sys
sys.path.insert(0, {str(HERE)!r})
from worker_core_support import job, worker

async def main():
    async with worker(lanes=5, warm=["compile", "interpret"]) as connected:
        started = asyncio.Event()
        count = 0
        def progress(*_):
            nonlocal count
            count += 1
            if count == 4:
                print("started", flush=True)
        await asyncio.gather(*(connected.run(job(a), on_progress=progress)
                             for a in ("spin", "deaf", "sleeper", "daemon fork")))
asyncio.run(main())
"""


@pytest.fixture
def mark(monkeypatch):
    return new_mark(monkeypatch)


@pytest.fixture
def client(mark):
    """A client whose worker spins, is deaf to signals, waits for a child, and has a daemon."""
    process = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"started\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def guard_of(mark):
    (pid,) = [pid for pid, command in marked(mark) if b"io.open(0" in command and supervisor_of(mark) != pid]
    return pid


def supervisor_of(mark):
    return named(mark, "tf-supervisor")


def test_nothing_is_left_when_the_client_is_killed(client, mark):
    assert len(marked(mark)) >= 8
    client.kill()
    assert_nothing_left(mark)


def test_nothing_is_left_when_the_supervisor_is_killed(client, mark):
    os.kill(supervisor_of(mark), signal.SIGKILL)
    assert client.wait(10) == 1
    assert_nothing_left(mark)


def test_nothing_is_left_when_the_outermost_process_is_killed(client, mark):
    os.kill(guard_of(mark), signal.SIGKILL)
    assert client.wait(10) == 1
    assert_nothing_left(mark)


def test_nothing_is_left_when_the_outermost_process_is_asked_to_end(client, mark):
    os.kill(guard_of(mark), signal.SIGTERM)
    assert client.wait(10) == 1
    assert_nothing_left(mark)


def test_ctrl_c_reaches_the_client_alone_and_nothing_is_left(client, mark):
    for pid, _ in marked(mark):
        if pid != client.pid:
            os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    assert len(marked(mark)) >= 8, "workers ignore it"
    client.send_signal(signal.SIGINT)
    start = time.monotonic()
    client.wait(10)
    assert time.monotonic() - start < 2
    assert_nothing_left(mark)


def test_running_jobs_survive_the_death_of_their_zygote_and_new_ones_get_another(mark):
    async def run():
        async with worker(lanes=2) as connected:
            started = asyncio.Event()
            running = asyncio.create_task(connected.run(job("progress"), on_progress=lambda *_: started.set()))
            await started.wait()
            os.kill(named(mark, "tf-compile"), signal.SIGKILL)
            crash = await failure_of(connected, "segfault")
            return (await running).output, crash.kind, (await connected.run(job("echo new"))).output

    assert asyncio.run(run()) == ("done", "crashed", "new")
    assert_nothing_left(mark)


def test_jobs_that_wait_when_the_worker_dies_fail_with_the_reason(mark):
    async def run():
        async with worker() as connected:
            waiting = [asyncio.create_task(connected.run(job("sleep 60"))) for _ in range(5)]
            await asyncio.sleep(0.3)
            os.kill(supervisor_of(mark), signal.SIGKILL)
            errors = await asyncio.gather(*waiting, return_exceptions=True)
            with pytest.raises(TargetUnreachable):
                await connected.run(job("echo late"))
            return errors

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [TargetUnreachable] * 5
    assert "has ended" in str(errors[0])
    assert_nothing_left(mark)


def test_leaving_the_block_ends_a_busy_worker_at_once(mark):
    async def run():
        async with worker(lanes=5) as connected:
            jobs = [asyncio.create_task(connected.run(job(a))) for a in ("spin", "deaf", "sleeper", "daemon exec")]
            await asyncio.sleep(0.4)
            for task in jobs:
                task.cancel()
            start = time.monotonic()
        return time.monotonic() - start

    assert asyncio.run(run()) < 2
    assert_nothing_left(mark, seconds=0.5)


def test_a_worker_that_is_cut_off_in_the_middle_of_starting_leaves_nothing(mark, monkeypatch):
    monkeypatch.setenv("TRITONFORGE_TEST_ZYGOTE", "slow")

    async def run():
        async with worker(warm=["compile", "interpret"]):
            return

    asyncio.run(run())
    assert_nothing_left(mark, seconds=0.5)


def test_no_file_is_left_in_the_temporary_folder(mark, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")

    async def run():
        async with worker() as connected:
            assert list(tmp_path.iterdir()), "the worker lies there while it runs"
            return (await connected.run(job("echo x"))).output

    assert asyncio.run(run()) == "x"
    assert_nothing_left(mark)
    assert list(Path(tmp_path).iterdir()) == []
