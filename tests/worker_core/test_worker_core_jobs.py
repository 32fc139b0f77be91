"""What a job may do to a worker, and what comes of it: real processes, on this Python and on the oldest supported."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest
from worker_core_support import do, failure_of, find_python, is_running, job, marked, new_mark, transport, until, worker

from tritonforge.domain.frames import Frame, FrameParser, body_of, message, pack
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import (
    Compare,
    Compile,
    Failure,
    Limits,
    LookAtGpu,
    MeasureCeilings,
    Program,
    Time,
    TimeBeside,
    TimeFresh,
)
from tritonforge.domain.parts import Inbox
from tritonforge.jobs import JobError
from tritonforge.worker.linux import available_cores

PYTHON_310 = find_python("3.10")
PROGRAM = Program("/", "f.py")
CALL = Call("c", "f.py", "f", ())


@pytest.fixture(params=["this Python", "Python 3.10"])
def python(request):
    if request.param == "this Python":
        return None
    if PYTHON_310 is None:
        pytest.skip("there is no Python 3.10 on this machine")
    return PYTHON_310


def test_a_job_returns_its_result_and_the_lane_is_kept_for_the_next(python):
    async def run():
        async with worker(python) as connected:
            first = await connected.run(job("pid"))
            second = await connected.run(job("pid"))
            return connected.hello, first.output, second.output

    hello, first, second = asyncio.run(run())
    assert first == second != ""
    assert hello.lanes == 2
    assert hello.python.startswith("3.10." if python else "3.")


def test_progress_arrives_in_order_before_the_result(python):
    seen = []

    async def run():
        async with worker(python) as connected:
            return await connected.run(
                job("progress"), on_progress=lambda text, fraction: seen.append((text, fraction))
            )

    assert asyncio.run(run()).output == "done"
    assert seen == [("step 0", 0.0), ("step 1", 1 / 3), ("step 2", 2 / 3)]


def test_every_way_to_end_a_job_gives_its_typed_failure_and_the_next_job_runs(python):
    async def run():
        async with worker(python) as connected:
            failures = {}
            for action in ("segfault", "exit 3", "sys-exit 4", "killed", "raise", "fail user-error", "close-fds"):
                failures[action] = await failure_of(connected, action)
                assert (await connected.run(job("echo alive"))).output == "alive"
            return failures

    failures = asyncio.run(run())
    kinds = {action: failure.kind for action, failure in failures.items()}
    assert kinds == {
        "segfault": "crashed",
        "exit 3": "crashed",
        "sys-exit 4": "user-error",
        "killed": "crashed",
        "raise": "internal",
        "fail user-error": "user-error",
        "close-fds": "crashed",
    }
    assert "SIGSEGV" in failures["segfault"].message
    assert failures["segfault"].file.endswith("ctypes/__init__.py")
    assert "last words" in failures["segfault"].detail
    assert "worker_core_handlers.py" in failures["segfault"].detail
    assert "exited with status 3" in failures["exit 3"].message
    assert "SIGKILL" in failures["killed"].message
    assert "ZeroDivisionError: a bug" in failures["raise"].detail
    assert (failures["fail user-error"].file, failures["fail user-error"].line) == ("f.py", 3)


def test_a_job_beyond_its_limits_is_killed_with_all_that_it_started(python):
    async def run():
        async with worker(python, lanes=5) as connected:
            brief = {"seconds": 0.4}
            return await asyncio.gather(
                failure_of(connected, "spin", **brief),
                failure_of(connected, "deaf", **brief),
                failure_of(connected, "sleeper", **brief),
                failure_of(connected, "daemon fork", **brief),
                failure_of(connected, "hog", memory_bytes=200 << 20),
            )

    *late, large = asyncio.run(run())
    assert [failure.kind for failure in late] == ["timeout"] * 4
    assert "0.4 s" in late[0].message
    assert large.kind == "memory"
    assert "200 MiB" in large.message


def lanes_named(name):
    """Processes that were forked from the lane `name`, or started by it."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if f"TRITONFORGE_LANE={name}\0".encode() in (folder / "environ").read_bytes():
                    found.add(folder.name)
                if (folder / "comm").read_text() == f"{name}\n":
                    found.add(folder.name)
    return found


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_a_daemon_that_a_job_leaves_behind_ends_with_the_job(how, monkeypatch):
    mark = new_mark(monkeypatch)

    async def run():
        async with worker() as connected:
            before = (await connected.run(job("pid"))).output
            await connected.run(job(f"daemon-left {how}"))
            after = (await connected.run(job("pid"))).output
            ours = {str(pid) for pid, _ in marked(mark)}
            return before, after, await until(lambda: not lanes_named("tf-lane-1") & ours)

    before, after, gone = asyncio.run(run())
    assert before != after, "a lane with leftovers is replaced"
    assert gone


def test_a_job_reads_back_the_end_of_what_it_printed(python):
    output = do("shout 3000000", python)
    assert len(output) == 20_000
    assert output.endswith("x\nthe end\n")
    assert do("children", python) == "from a child\n"


def test_a_job_has_no_input_and_low_priority(python):
    assert do("stdin", python) == "''"
    assert int(do("nice", python)) >= os.nice(0) + 10


def test_thirty_megabytes_of_bytes_come_back_as_they_were(python):
    async def run():
        async with worker(python) as connected:
            return await connected.run(job("large 30000000"))

    result = asyncio.run(run())
    assert result.calls[0].arguments[0].values.data == b"\xffab" * 10_000_000


def test_fifty_jobs_at_once_each_get_their_own_answer(python):
    async def run():
        async with worker(python) as connected:
            return await asyncio.gather(*(connected.run(job(f"echo {number}")) for number in range(50)))

    assert [result.output for result in asyncio.run(run())] == [str(number) for number in range(50)]


def test_cancelling_ends_a_running_job_and_drops_a_queued_one(python):
    async def run():
        async with worker(python, lanes=1) as connected:
            started = asyncio.Event()
            running = asyncio.create_task(connected.run(job("spin"), on_progress=lambda *_: started.set()))
            await started.wait()
            queued = asyncio.create_task(connected.run(job("exit 3")))
            await asyncio.sleep(0.05)
            queued.cancel()
            running.cancel()
            done = await asyncio.gather(running, queued, return_exceptions=True)
            start = time.monotonic()
            answer = await connected.run(job("echo next"))
            return done, answer.output, time.monotonic() - start

    done, answer, waited = asyncio.run(run())
    assert [type(error) for error in done] == [asyncio.CancelledError] * 2
    assert answer == "next"
    assert waited < 2


def test_a_job_is_cancelled_while_nobody_reads_a_large_result():
    async def run():
        channel = await transport(lanes=2).open(20)
        parser, inbox = FrameParser(), Inbox()

        def send(frame):
            channel.write(b"".join(pack(frame)))

        def request(number, action):
            bounds = {"seconds": 60, "memory_bytes": 8 << 30}
            send(message("request", job(action), id=number, job="Record", **bounds))

        async def pid_of_spinner():
            async for frame in frames():
                if frame.kind == "progress":
                    return int(frame.header["message"])
            raise AssertionError

        async def frames():
            while data := await channel.read():
                for frame in parser.feed(data):
                    for whole in inbox.take(frame) if frame.kind == "part" else [frame]:
                        yield whole

        try:
            request(1, "sleeper")
            spinner = await pid_of_spinner()
            request(2, "large 60000000")
            await asyncio.sleep(0.3)
            send(message("cancel", id=1))
            gone = await until(lambda: not is_running(spinner))
            kinds = set()
            async for frame in frames():
                kinds.add((frame.header["id"], frame.kind))
                if len(kinds) == 2:
                    return gone, kinds
        finally:
            await channel.close()

    assert asyncio.run(run()) == (True, {(1, "failure"), (2, "result")})


def test_interpreting_and_compiling_happen_in_different_zygotes(python):
    async def run():
        async with worker(python, warm=["compile", "interpret"]) as connected:
            compare = await connected.run(Compare(PROGRAM, PROGRAM, ()))
            return compare, (await connected.run(job("environment TRITON_INTERPRET"))).output

    compare, compiling = asyncio.run(run())
    assert compare.outcomes == ()
    assert compiling == ""


def test_what_the_worker_cannot_read_is_refused_and_it_goes_on():
    async def run():
        channel = await transport().open(20)
        parser = FrameParser()
        bounds = {"seconds": 60, "memory_bytes": 8 << 30}
        frames = [
            Frame({"v": 99, "kind": "request", "id": 1}),
            message("question", id=2),
            message("request", job("echo x"), id=3, job="Record"),
            message("request", job("echo x"), id=4, job="Destroy", **bounds),
            message("request", CALL, id=5, job="Record", **bounds),
            message("cancel", id=77),
            message("request", job("echo x"), id=6, job="Record", **bounds),
        ]
        answers = {}
        try:
            for frame in frames:
                channel.write(b"".join(pack(frame)))
            while not {5, 6} <= answers.keys():
                for frame in parser.feed(await channel.read()):
                    answers[frame.header.get("id")] = frame
            channel.write(b"this is no frame at all, is it?")
            while await channel.read():
                pass
            return answers, await channel.last_words()
        finally:
            await channel.close()

    answers, words = asyncio.run(run())
    refusals = {number: body_of(answers[number], Failure) for number in range(1, 6)}
    assert {failure.kind for failure in refusals.values()} == {"protocol"}
    assert "speaks protocol 99, this worker 1" in refusals[1].message
    assert "'question'" in refusals[2].message
    assert "lacks its id, job or limits" in refusals[3].message
    assert "Destroy" in refusals[4].message
    assert "could not read the request" in refusals[5].message
    assert answers[6].kind == "result"
    assert "expected a frame, got b'this is no frame" in words


def test_an_idle_worker_uses_no_cpu():
    def ticks(mark):
        used = 0
        for pid, _ in marked(mark):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
        return used

    async def run(mark):
        async with worker() as connected:
            await connected.run(job("echo x"))
            await asyncio.sleep(0.3)
            before = ticks(mark)
            await asyncio.sleep(1)
            return ticks(mark) - before

    with pytest.MonkeyPatch.context() as patch:
        assert asyncio.run(run(new_mark(patch))) <= 1


@pytest.mark.triton
def test_a_lane_forked_from_torch_has_one_thread_and_an_untouched_cuda(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITONFORGE_TEST_ZYGOTE", "torch")
    assert do("torch") == "one thread, CUDA untouched, triton imported"


def test_a_variable_of_the_user_does_not_turn_the_compiler_into_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert do("environment TRITON_INTERPRET") == ""


def test_a_device_job_runs_alone_and_is_not_overtaken(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("TRITONFORGE_TEST_LOG", str(log))
    compile_ = Compile(PROGRAM, CALL, "sm_90")

    async def run():
        async with worker(lanes=2) as connected:
            jobs = [compile_, compile_, compile_, MeasureCeilings(), compile_, compile_, MeasureCeilings()]
            await asyncio.gather(*(connected.run(request) for request in jobs))

    asyncio.run(run())
    spans = [
        (kind, float(start), float(end)) for kind, start, end in (line.split() for line in log.read_text().splitlines())
    ]
    devices = [span for span in spans if span[0] == "MeasureCeilings"]
    others = [span for span in spans if span[0] == "Compile"]
    for _, start, end in devices:
        assert all(other_end <= start or end <= other_start for _, other_start, other_end in others)
    assert len([span for span in others if span[2] <= devices[0][1]]) == 3
    # Two compile lanes do overlap.
    assert any(a[1] < b[1] < a[2] for a in others for b in others)


def test_a_measurement_that_has_to_be_fresh_has_a_process_of_its_own():
    async def run():
        async with worker(lanes=2) as connected:
            kinds = (Time, Time, TimeFresh, Time, TimeFresh)
            return [(await connected.run(kind((PROGRAM,), CALL))).notes[0] for kind in kinds]

    first, same, fresh, kept, another = asyncio.run(run())
    assert first == same
    assert fresh != first
    assert kept == fresh, "whatever comes next need not be"
    assert another not in {first, fresh}


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 8 or available_cores() < 8, reason="needs 8 cores to keep some of them apart"
)
def test_a_measurement_that_may_runs_beside_compilations_on_cores_of_its_own(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("TRITONFORGE_TEST_LOG", str(log))

    async def run():
        async with worker(lanes=2) as connected:
            jobs = [Compile(PROGRAM, CALL, "sm_90")] * 6 + [TimeBeside((PROGRAM,), CALL)]
            await asyncio.gather(*(connected.run(request) for request in jobs))

    asyncio.run(run())
    spans = [(k, float(a), float(b)) for k, a, b in (line.split() for line in log.read_text().splitlines())]
    ((_, start, end),) = (span for span in spans if span[0] == "TimeBeside")
    assert any(a < end and start < b for kind, a, b in spans if kind == "Compile")


def test_two_gpus_measure_at_once_and_neither_twice(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("TRITONFORGE_TEST_LOG", str(log))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    async def run():
        async with worker(lanes=2) as connected:
            asked = [connected.run(MeasureCeilings(), gpu=(number % 2, 2)) for number in range(6)]
            return [result.gpu.split()[0] for result in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == ["0", "1"] * 3
    spans = sorted(tuple(map(float, line.split()[1:])) for line in log.read_text().splitlines())
    together = [sum(a < end and start < b for a, b in spans) for start, end in spans]
    assert max(together) >= 2, "two GPUs work side by side"
    for moment, _ in spans:
        assert sum(start <= moment < end for start, end in spans) <= 2


def test_a_job_that_the_worker_has_no_handler_for_is_unsupported():
    async def run():
        async with worker() as connected:
            with pytest.raises(JobError, match="cannot do LookAtGpu jobs") as caught:
                await connected.run(LookAtGpu())
            return caught.value.kind

    assert asyncio.run(run()) == "unsupported"


def test_a_result_that_cannot_be_sent_is_a_bug_of_ours_and_not_a_hang():
    async def run():
        async with worker() as connected:
            return await failure_of(connected, "not-a-result")

    assert asyncio.run(run()).kind == "internal"


def test_a_cuda_error_costs_the_lane():
    async def run():
        async with worker() as connected:
            before = (await connected.run(job("pid"))).output
            failure = await failure_of(connected, "fail cuda-error")
            return before, failure.kind, (await connected.run(job("pid"))).output

    before, kind, after = asyncio.run(run())
    assert kind == "cuda-error"
    assert before != after


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("missing", "has no module 'a_module_that_is_not_there'. Install torch and triton in this interpreter"),
        ("segfault", "was killed by SIGSEGV while it imported torch and triton (it said: about to load libbroken.so)"),
    ],
)
def test_an_interpreter_that_cannot_import_torch_says_so_instead_of_hanging(broken, says, monkeypatch):
    monkeypatch.setenv("TRITONFORGE_TEST_ZYGOTE", broken)

    async def run():
        async with worker() as connected:
            return [await failure_of(connected, "echo x") for _ in range(5)]

    for failure in asyncio.run(run()):
        assert failure.kind == "unsupported"
        assert says in failure.message


def test_the_time_limit_does_not_count_imports_or_the_queue(monkeypatch):
    monkeypatch.setenv("TRITONFORGE_TEST_ZYGOTE", "slow")

    async def run():
        async with worker(lanes=1) as connected:
            return await asyncio.gather(
                *(connected.run(job("sleep 0.2"), limits=Limits(seconds=0.6)) for _ in range(4))
            )

    assert len(asyncio.run(run())) == 4
