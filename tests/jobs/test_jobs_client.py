"""The client against fake workers: answers, failures, and streams that make no sense."""

import asyncio

import pytest

from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import Frame, message, pack
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compile, CompileResult, Describe, Failure, Limits, Program, Record
from tritonforge.domain.target import Target
from tritonforge.jobs import JobError, connect
from tritonforge.targets import FAKE_WORKER, FakeTransport

PROGRAM = Program("/", "f.py")
COMPILE = Compile(PROGRAM, Call("c", "f.py", "f", ()), "sm_90")


def fake(transport, **options):
    return connect(Target("fake"), transport=transport, **options)


class ScriptedChannel:
    """A channel on which `incoming` arrives; what is written is kept."""

    def __init__(self, incoming=()):
        self.queue = asyncio.Queue()
        self.written = b""
        self.closed = False
        for data in incoming:
            self.queue.put_nowait(data)

    async def open(self, timeout):  # noqa: ASYNC109 - the protocol's signature
        return self

    async def read(self):
        return await self.queue.get()

    def write(self, data):
        self.written += data

    async def drain(self):
        return

    async def last_words(self):
        return "Segmentation fault"

    async def close(self):
        self.closed = True


def wire(frame):
    return b"".join(pack(frame))


HELLO = message("hello", FAKE_WORKER)


def test_a_fake_target_answers_from_its_table_and_remembers_what_it_was_asked():
    transport = FakeTransport({Compile: lambda request: CompileResult((), request.arch)})

    async def run():
        async with fake(transport) as worker:
            assert worker.hello == FAKE_WORKER
            return await worker.run(COMPILE)

    assert asyncio.run(run()) == CompileResult((), "sm_90")
    assert transport.requests == [COMPILE]


def test_a_failure_is_raised_with_its_sentence():
    failure = Failure("user-error", "name 'x' is not defined.", "f.py", 3, "Traceback …")

    async def run():
        async with fake(FakeTransport({Compile: lambda _: failure})) as worker:
            await worker.run(COMPILE)

    with pytest.raises(JobError, match="name 'x' is not defined") as caught:
        asyncio.run(run())
    assert caught.value.failure == failure
    assert caught.value.kind == "user-error"


def test_a_request_carries_its_limits_and_priority():
    channel = ScriptedChannel

    async def run():
        scripted = channel([wire(HELLO)])
        async with fake(scripted, limits=Limits(7, 11)) as worker:
            own = asyncio.create_task(worker.run(COMPILE, limits=Limits(2.5, 1 << 20), priority=-1))
            common = asyncio.create_task(worker.run(Describe()))
            await asyncio.sleep(0)
            scripted.queue.put_nowait(wire(message("result", FAKE_WORKER, id=2)))
            scripted.queue.put_nowait(wire(message("result", CompileResult(()), id=1)))
            await asyncio.gather(own, common)
        return scripted.written

    written = asyncio.run(run())
    assert b'"job":"Compile","seconds":2.5,"memory_bytes":1048576,"priority":-1' in written
    assert b'"job":"Describe","seconds":7,"memory_bytes":11,"priority":0' in written


def test_cancelling_the_waiting_task_sends_a_cancel_and_a_late_answer_is_ignored():
    async def run():
        scripted = ScriptedChannel([wire(HELLO)])
        async with fake(scripted) as worker:
            task = asyncio.create_task(worker.run(COMPILE))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            scripted.queue.put_nowait(wire(message("failure", Failure("cancelled", "."), id=1)))
            again = asyncio.create_task(worker.run(COMPILE))
            await asyncio.sleep(0)
            scripted.queue.put_nowait(wire(message("result", CompileResult(()), id=2)))
            assert await again == CompileResult(())
        return scripted

    scripted = asyncio.run(run())
    assert b'"kind":"cancel","id":1' in scripted.written
    assert scripted.closed


def test_an_error_in_the_progress_callback_reaches_the_caller_and_ends_the_job():
    async def run():
        scripted = ScriptedChannel([wire(HELLO)])
        async with fake(scripted) as worker:
            task = asyncio.create_task(worker.run(COMPILE, on_progress=lambda *_: 1 / 0))
            await asyncio.sleep(0)
            scripted.queue.put_nowait(wire(message("progress", id=1, message="x", fraction=None)))
            with pytest.raises(ZeroDivisionError):
                await task
        return scripted.written

    assert b'"kind":"cancel","id":1' in asyncio.run(run())


def test_a_block_whose_leaving_is_cancelled_still_closes_the_channel():
    async def run():
        scripted = ScriptedChannel([wire(HELLO)])
        inside, leave = asyncio.Event(), asyncio.Event()

        async def work():
            async with fake(scripted):
                inside.set()
                await leave.wait()

        task = asyncio.create_task(work())
        await inside.wait()
        leave.set()
        await asyncio.sleep(0)
        assert not task.done(), "the block is being left"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return scripted.closed

    assert asyncio.run(run())


@pytest.mark.parametrize(
    ("arrives", "says"),
    [
        ([b""], "has ended (last lines: Segmentation fault)"),
        ([b"Traceback (most recent call last):\n"], "sent what cannot be read (expected a frame, got b'Traceback"),
        ([wire(Frame({"v": 99, "kind": "result", "id": 1}))], f"speaks protocol 99, not {PROTOCOL_VERSION}"),
        ([wire(message("result", FAKE_WORKER, id=1))[:40], b""], "has ended"),
    ],
)
def test_all_that_wait_learn_why_the_worker_is_gone(arrives, says):
    async def run():
        scripted = ScriptedChannel([wire(HELLO)])
        async with fake(scripted) as worker:
            tasks = [asyncio.create_task(worker.run(COMPILE)) for _ in range(3)]
            await asyncio.sleep(0)
            for data in arrives:
                scripted.queue.put_nowait(data)
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            with pytest.raises(TargetUnreachable):
                await worker.run(COMPILE)
        return errors, scripted.closed

    errors, closed = asyncio.run(run())
    assert [type(error) for error in errors] == [TargetUnreachable] * 3
    assert says in str(errors[0])
    assert closed


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (wire(Frame({"v": 99, "kind": "hello"})), "speaks protocol 99"),
        (b"garbage that is long enough", "cannot be read"),
        (b"", "has ended"),
    ],
)
def test_a_hello_that_makes_no_sense_is_an_unreachable_target(first, says):
    async def run():
        scripted = ScriptedChannel([first])
        try:
            async with fake(scripted):
                pass
        finally:
            assert scripted.closed

    with pytest.raises(TargetUnreachable) as caught:
        asyncio.run(run())
    assert says in str(caught.value)


def test_a_worker_that_says_nothing_is_given_up():
    async def run():
        async with fake(ScriptedChannel(), timeout=0.2):
            pass

    with pytest.raises(TargetUnreachable, match=r"said nothing within 0\.2 s \(last lines: Segmentation fault\)"):
        asyncio.run(run())


def test_an_answer_of_another_shape_is_a_protocol_failure():
    async def run():
        scripted = ScriptedChannel([wire(HELLO)])
        async with fake(scripted) as worker:
            task = asyncio.create_task(worker.run(Record(PROGRAM, "main")))
            await asyncio.sleep(0)
            scripted.queue.put_nowait(wire(message("result", Failure("internal", "?"), id=1)))
            await task

    with pytest.raises(JobError, match="cannot be read") as caught:
        asyncio.run(run())
    assert caught.value.kind == "protocol"


def test_a_large_answer_is_read_beside_the_event_loop():
    async def run():
        transport = FakeTransport({Compile: lambda _: CompileResult((), "x" * (1 << 20))})
        async with fake(transport) as worker:
            return await worker.run(COMPILE)

    assert len(asyncio.run(run()).output) == 1 << 20
