"""A far side that is broken or means harm: one sentence, soon, and nothing hangs, crashes or is left."""

import asyncio
import json
import struct
import sys
import textwrap
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_support import HERE, assert_nothing_left, elsewhere, far, job

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.errors import TargetUnreachable, TritonForgeError
from tritonforge.domain.frames import Frame, FrameError, FrameParser, body_of, message, pack
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compile, CompileResult, Failure, Limits, Program
from tritonforge.domain.target import Target
from tritonforge.jobs import connect
from tritonforge.jobs.client import Heartbeat, Worker
from tritonforge.targets import FAKE_WORKER, ProcessTransport
from tritonforge.targets.archive import worker_archive
from tritonforge.targets.command import bootstrap

COMPILE = Compile(Program("/", "f.py"), Call("c", "f.py", "f", ()), "sm_90")
HELLO = message("hello", FAKE_WORKER)
START = (
    "import sys, time, struct, json\nout = sys.stdout.buffer\ndef say(data):\n    out.write(data)\n    out.flush()\n"
)
GREET = START + "say(b'\\ntritonforge-worker/1 start\\n')\n"


def wire(frame):
    return b"".join(pack(frame))


def evil(tmp_path, text):
    """A target whose far side is a program that does as `text` says."""
    path = tmp_path / "evil.py"
    path.write_text(textwrap.dedent(text))
    return Target("far", command=(sys.executable, "-u", str(path)))


async def meet(target, timeout=3.0, **options):  # noqa: ASYNC109 - passed on
    async with connect(target, transport=ProcessTransport(target, {}), timeout=timeout, **options) as worker:
        return await worker.run(COMPILE, limits=Limits(5))


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (START + "while True: say(b'x' * 65536)", "did not answer within"),
        (START + "while True: say(b'tritonforge-worker/1 need\\n')", "did not answer within"),
        (START + "while True: sys.stderr.write('y' * 65536)", "did not answer within"),
        (START + "while True: say(b'\\n'); time.sleep(0.01)", "did not answer within"),
        (GREET + "say(b'z' * 100)", "cannot be read"),
        (GREET + "say(struct.pack('>4sIQ', b'TFr1', 10, 1 << 62)); time.sleep(60)", "more than any message has"),
        (GREET + "say(struct.pack('>4sIQ', b'TFr1', 1 << 31, 1)); time.sleep(60)", "more than any message has"),
        (GREET + "say(struct.pack('>4sIQ', b'TFr1', 100000, 0) + b'[' * 100000); time.sleep(60)", "is not JSON"),
        (GREET + "say(struct.pack('>4sIQ', b'TFr1', 20, 0))\nwhile True: say(b' '); time.sleep(0.5)", "said nothing"),
        (GREET + "time.sleep(60)", "said nothing within"),
        (GREET + "h = json.dumps({'v': 7, 'kind': 'hello'}).encode(); say(struct.pack('>4sIQ', b'TFr1', len(h), 0) + h)"
         "\ntime.sleep(60)", "speaks protocol 7"),
        (START + "import os; os.close(1); time.sleep(60)", "closed its output before a worker answered"),
        (GREET + "import os; os.close(1); time.sleep(60)", "has ended"),
        (START + "say(b'Password: '); time.sleep(60)", "see that"),
        (START + "print('Enter PIN for key:', end=' ', file=sys.stderr, flush=True); time.sleep(60)", "see that"),
        (START + "say(b'\\ntritonforge-worker/1 python \\x1b[2J2.7.18 /evil\\x07\\n')", "too old for a worker"),
    ],
)  # fmt: skip
def test_every_strange_greeting_is_an_unreachable_target(tmp_path, mark, does, says):
    begun = time.monotonic()
    with pytest.raises(TargetUnreachable) as caught:
        asyncio.run(
            meet(evil(tmp_path, does), timeout=20.0 if "close(1)" in does else 4.0 if "see that" in says else 1.5)
        )
    assert says in str(caught.value)
    assert "asks a question" in str(caught.value) or "see that" not in says
    assert str(caught.value).isprintable(), "what would command a terminal is taken out"
    assert len(str(caught.value)) < 3000
    assert time.monotonic() - begun < 20
    assert_nothing_left(mark)


class Scripted:
    """A channel on which `incoming` arrives after the hello; it then stays open."""

    def __init__(self, incoming):
        self._queue = asyncio.Queue()
        self.written = bytearray()
        for data in (wire(HELLO), *incoming):
            self._queue.put_nowait(data)

    async def read(self):
        return await self._queue.get()

    def write(self, data):
        self.written += data

    async def drain(self):
        return

    async def last_words(self):
        return ""

    async def close(self):
        return


async def ask(*incoming, heartbeat=None, limits=None):
    """What a worker that answers with `incoming` makes of a job: its result, or the error it raises."""
    scripted = Scripted([])
    worker = Worker("far", scripted, limits or Limits(), heartbeat)
    asked = asyncio.create_task(worker.run(COMPILE, on_progress=lambda *_: None))
    try:
        while not scripted.written:  # noqa: ASYNC110 - it takes a turn or two of the loop
            await asyncio.sleep(0)
        for data in incoming:
            scripted._queue.put_nowait(data)
        return await asyncio.wait_for(asked, 10)
    except TritonForgeError as error:
        return error
    finally:
        await worker._close()


def answers(*incoming, **options):
    return asyncio.run(ask(*incoming, **options))


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize(
    "answer",
    [
        Frame({"v": 1, "kind": "result", "id": 1, "body": len(DEEP)}, DEEP),
        Frame({"v": 1, "kind": "failure", "id": 1, "body": 2}, b"{}"),
        Frame({"v": 1, "kind": "result", "id": 1, "body": -1}, b""),
        Frame({"v": 1, "kind": "result", "id": 1, "body": 10**9}, b"{}"),
        Frame({"v": 1, "kind": "result", "id": 1, "body": 24}, b'{"$blob": [0, 99999999]}'),
        Frame({"v": 1, "kind": "result", "id": 1, "body": 17}, b'{"$kept": "abcd"}'),
        message("result", Failure("internal", "?"), id=1),
    ],
)
def test_an_answer_of_another_shape_is_a_failure_of_the_job(answer):
    error = answers(wire(answer))
    assert "cannot be read" in str(error)
    assert error.kind == "protocol"


@pytest.mark.parametrize(
    "header",
    [
        {"id": [1]}, {"id": {"a": 1}}, {"id": None}, {"id": 10**30}, {"kind": ["x"]}, {"kind": "progress", "id": 1},
        {"kind": "progress", "id": 1, "message": {"a": []}, "fraction": "half"},
        {"kind": "progress", "id": 1, "fraction": float("nan")}, {"kind": "progress", "id": 1, "fraction": [1]},
        {"kind": "got"}, {"kind": "pong"}, {"kind": "files", "id": 7}, {"kind": "hello", "body": 0},
    ],
)  # fmt: skip
def test_a_header_that_makes_no_sense_costs_nothing(header):
    strange = wire(Frame({"v": 1, "kind": "result", **header}))
    assert answers(strange, wire(message("result", CompileResult((), "fine"), id=1))) == CompileResult((), "fine")


@pytest.mark.parametrize(
    "part",
    [
        {"of": "a"}, {"of": [1], "size": 3}, {"of": 1}, {"of": 1, "size": 1 << 40}, {"of": 1, "size": -1},
        {"of": 1, "size": 2}, {"of": 1, "size": True}, {"of": None},
    ],
)  # fmt: skip
def test_parts_that_belong_to_nothing_end_the_connection(part):
    error = answers(wire(Frame({"v": 1, "kind": "part", **part}, b"abc")))
    assert isinstance(error, TargetUnreachable)
    assert "cannot be read" in str(error)


def test_a_part_within_a_part_is_no_way_to_overflow_the_stack():
    inner = wire(Frame({"v": 1, "kind": "part", "of": 2, "size": 3}, b"abc"))
    error = answers(wire(Frame({"v": 1, "kind": "part", "of": 1, "size": len(inner)}, inner)))
    assert "do not make one" in str(error)


def test_a_worker_that_lives_but_never_answers_is_given_up(monkeypatch):
    from tritonforge.jobs import client

    monkeypatch.setattr(client, "_START_S", 0.2)

    async def run():
        scripted = Scripted([])

        async def pongs():
            while True:
                await asyncio.sleep(0.02)
                scripted._queue.put_nowait(wire(message("pong")))

        task = asyncio.create_task(pongs())
        worker = Worker("far", scripted, Limits(0.2), Heartbeat(every=0.05))
        try:
            with pytest.raises(TargetUnreachable, match="has not answered any job"):
                await worker.run(COMPILE)
        finally:
            task.cancel()
            await worker._close()

    asyncio.run(run())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["$", "$blob", "$bytes", "$float", "$kept", "launches", "output", "sources", "id", "kind", "of"]),
        inner, max_size=4,
    ), max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(["kind", "id", "body", "of", "size", "dropped", "v", "message", "fraction"]), JSON),
       st.binary(max_size=40))  # fmt: skip
def test_no_frame_whatever_brings_the_near_side_down(header, payload):
    size = len(payload)
    frame = Frame({"v": 1, "id": 1, **header, **({"body": size} if header.get("body") else {})}, payload)
    try:
        strange = wire(frame)
    except (ValueError, FrameError):
        return
    done = answers(strange, wire(message("result", CompileResult((), "fine"), id=1)))
    assert isinstance(done, CompileResult | TritonForgeError)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_a_body_is_read_or_refused_and_nothing_else(data):
    text = json.dumps(data).encode()
    for kind in (CompileResult, Failure, Call):
        try:
            body_of(Frame({"v": 1, "kind": "result", "body": len(text)}, text), kind)
        except CodecError:
            continue


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_bytes_are_frames_or_refused(noise, where):
    good = wire(message("result", CompileResult((), "x"), id=1))
    stream = good[:where] + noise + good[where:]
    try:
        list(FrameParser(1 << 20).feed(stream))
    except FrameError:
        return


def test_wrong_spellings_of_values_are_codec_errors():
    for kind, data in (
        (float, {"$float": "x"}),
        (float, {"$float": [1]}),
        (bytes, {"$bytes": "\x00"}),
        (bytes, {"$bytes": 3}),
    ):
        with pytest.raises(CodecError):
            decode(kind, data)
    assert decode(float, encode(float("inf"))) == float("inf")


def test_a_result_for_another_job_or_a_second_one_is_nobodys():
    other = wire(message("result", CompileResult((), "of another"), id=2))
    mine = wire(message("result", CompileResult((), "mine"), id=1))
    assert answers(other, other, mine, other, mine).output == "mine"
    early = wire(message("result", CompileResult((), "early"), id=2))

    async def run():
        scripted = Scripted([early])
        worker = Worker("far", scripted, Limits())
        try:
            while not scripted._queue.empty():  # noqa: ASYNC110 - it takes a turn or two of the loop
                await asyncio.sleep(0)
            asked = [asyncio.create_task(worker.run(COMPILE)) for _ in range(2)]
            while len(worker._pending) < 2:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0)
            for number in (1, 1, 2):
                scripted._queue.put_nowait(wire(message("result", CompileResult((), f"{number}"), id=number)))
            return [one.output for one in await asyncio.wait_for(asyncio.gather(*asked), 10)]
        finally:
            await worker._close()

    assert asyncio.run(run()) == ["1", "2"], "what comes before a job was asked for is not its answer"


def test_a_flood_of_progress_leaves_the_near_side_its_turns():
    class Flood(Scripted):
        async def read(self):
            return noise  # never waits

    noise = wire(message("progress", id=1, message="still at it")) * 500

    async def run():
        worker = Worker("far", Flood([]), Limits())
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(worker.run(COMPILE, on_progress=lambda *_: None), 0.3)
        finally:
            await worker._close()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("harm", ["emptied", "link", "open"])
def test_a_worker_in_the_cache_that_is_not_whole_or_not_ours_is_never_run(home, workspace, harm):
    parent = home / ".cache" / "tritonforge" / "worker"
    kept = parent / worker_archive().digest

    async def run():
        async with far(elsewhere(home)) as worker:
            return (await worker.run(job(workspace, "read kernels.py"))).output

    asyncio.run(run())
    main = kept / "tritonforge" / "worker" / "__main__.py"
    if harm == "emptied":
        (kept / "tritonforge" / "worker" / "guard.py").write_text("")
    elif harm == "link":
        kept.rename(home / "elsewhere")
        kept.symlink_to(home / "elsewhere")
    else:
        parent.chmod(0o777)
        parent.parent.chmod(0o777)
    assert asyncio.run(run()) == "VALUE = 1\n"
    assert main.stat().st_size > 300
    assert not kept.is_symlink()
    assert not (parent.stat().st_mode | parent.parent.stat().st_mode) & 0o077
    assert [path.name for path in parent.iterdir()] == [kept.name], "nothing broken is kept, and no second one"


RELAY = HERE / "far_relay.py"


ARCHIVE = len(bootstrap(worker_archive(), {})) + len(worker_archive().data)
"""Bytes up to the end of the worker's archive, about."""


@pytest.mark.parametrize(
    ("way", "after"),
    [
        *(("up", after) for after in (0, 3000, 9000, ARCHIVE + 300, ARCHIVE + 100_000, ARCHIVE + 206_000)),
        *(("down", after) for after in (1, 30, 60, 500, 1200, 60_000, 180_000)),
    ],
)
def test_a_line_that_dies_at_any_step_leaves_nothing_and_says_so(home, workspace, mark, way, after):
    """From the first byte over the bootstrap, the archive and the files to the job and its result."""
    (workspace / "kernels.py").write_text("W = 'weights.bin'\n")
    (workspace / "weights.bin").write_bytes(bytes(range(256)) * 800)
    counted = home / "was cut"
    relay = (sys.executable, str(RELAY), way, str(after), str(counted))
    target = elsewhere(home)
    cut = Target("far", command=(*relay, *target.command), python=target.python)

    async def run():
        async with far(cut) as worker:
            return len((await worker.run(job(workspace, "large 200000"))).calls[0].arguments[0].values.data)

    try:
        done = asyncio.run(run())
    except TargetUnreachable as error:
        done = str(error)
    assert done == 200_000 or "arget 'far'" in done
    assert_nothing_left(mark)
    assert not list(home.rglob(".new-*")) or after, "a file is there whole, or not"
    # Whatever was left behind there, the next connection works.

    async def again():
        async with far(target) as worker:
            return (await worker.run(job(workspace, "read kernels.py"))).output

    assert asyncio.run(again()) == "W = 'weights.bin'\n"


def test_the_sizes_of_frames_are_what_they_are_said_to_be():
    assert struct.calcsize(">4sIQ") == 16
