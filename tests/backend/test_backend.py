"""The process that does an editor's jobs: errors cross as what they are, it obeys, and it never outlives anybody."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tritonforge.backend import client as client_module
from tritonforge.backend.client import Backend, Bug
from tritonforge.backend.host import Host
from tritonforge.backend.target import OpenTarget
from tritonforge.backend.tasks import Opening, Reported, Task
from tritonforge.backend.wire import Unpacker, packed, portable
from tritonforge.config import Settings
from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable, UsageError
from tritonforge.domain.messages import Failure
from tritonforge.jobs.errors import JobError


@pytest.mark.parametrize(
    "error",
    [
        UsageError("Wrong.", "Mend it."),
        TargetUnreachable("Gone.", "Try again."),
        NoLaunchKnown("None."),
        JobError(Failure("timeout", "It took too long.", "the rest")),
    ],
)
def test_errors_cross_as_what_they_are(error):
    (found,) = Unpacker().feed(packed(("failed", 1, portable(error))))
    assert type(found[2]) is type(error)
    assert str(found[2]) == str(error)
    assert found[2].exit_code == error.exit_code
    assert getattr(found[2], "failure", None) == getattr(error, "failure", None)


def test_an_error_that_cannot_cross_says_the_same():
    class Local(UsageError):
        exit_code = 4

    found = portable(Local("Wrong.", "Mend it."))
    assert str(found) == "Wrong. Mend it."
    assert found.exit_code == 4


def test_messages_are_read_however_they_are_cut():
    stream = packed(("a", 1)) + packed(("b", "x" * 1000)) + packed(("c",))
    for size in (1, 7, 1000, len(stream)):
        reader, found = Unpacker(), []
        for start in range(0, len(stream), size):
            found += reader.feed(stream[start : start + size])
        assert found == [("a", 1), ("b", "x" * 1000), ("c",)]


def test_a_target_that_is_not_there_is_said_as_by_the_command_line(tmp_path):
    async def run():
        await Backend.start(Opening(Settings(tmp_path), "nowhere", None))

    with pytest.raises(UsageError, match="nowhere"):
        asyncio.run(run())


def test_an_interpreter_that_is_not_there_is_said(tmp_path):
    async def run():
        await Backend.start(Opening(Settings(tmp_path), "offline", str(tmp_path / "no-python")))

    with pytest.raises(TargetUnreachable, match="cannot be started"):
        asyncio.run(run())


def test_nothing_of_the_folder_it_is_started_in_is_imported(tmp_path, monkeypatch):
    (tmp_path / "asyncio.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "tritonforge").mkdir()
    (tmp_path / "tritonforge" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    test_a_target_that_is_not_there_is_said_as_by_the_command_line(tmp_path)


def test_whatever_is_asked_is_answered(tmp_path, monkeypatch, capsys):
    async def opens(_self):
        raise KeyError("a bug")

    async def run():
        source, sink = os.pipe()
        host = Host(sink)
        host.take(("open", Opening(Settings(tmp_path), "nowhere", None)))
        host.take(("run", 1, Task()))
        host.take(("run", 2, Task()))
        host.take(("cancel", 2))  # arrived together with it, so that it never began
        await asyncio.gather(*host._tasks.values(), return_exceptions=True)
        monkeypatch.setattr(OpenTarget, "open", opens)
        host.take(("open", Opening(Settings(tmp_path), None, None)))
        await asyncio.gather(*host._tasks.values())
        os.close(sink)
        with os.fdopen(source, "rb") as stream:
            return [(kind, number) for kind, number, *_ in Unpacker().feed(stream.read())]

    assert sorted(asyncio.run(run())) == [("bug", 0), ("cancelled", 2), ("failed", 0), ("failed", 1)]
    assert "a bug" in capsys.readouterr().err


# A backend that answers as each test says: the protocol and the processes are the real ones, the work is not.
FAKE = """
import sys; sys.path[:] = {path!r}
import os, threading, time
from tritonforge.backend.tasks import Reported
from tritonforge.backend.wire import Unpacker, packed
def say(*message): os.write(1, packed(message))
reader = Unpacker()
while data := os.read(0, 65536):
    for message in reader.feed(data):
        if message[0] == "open":
            say("ready", None)
        elif message[0] == "run":
            {on_run}
        elif message[0] == "cancel":
            {on_cancel}
"""


def faked(monkeypatch, on_run="pass", on_cancel="pass"):
    program = FAKE.replace("{on_run}", on_run).replace("{on_cancel}", on_cancel)
    monkeypatch.setattr(client_module, "_PROGRAM", program)
    return Backend.start(Opening(Settings(Path.cwd()), "offline", None))


async def cancelled_when_begun(backend):
    begun = asyncio.Event()
    task = asyncio.create_task(backend.run(Task(), lambda _: begun.set()))
    await begun.wait()
    task.cancel()
    return await task


def test_what_happens_meanwhile_is_heard_in_order_and_a_bug_is_no_answer(monkeypatch):
    async def run():
        backend = await faked(
            monkeypatch,
            "for n in range(3): say('event', message[1], Reported(str(n)))\n"
            "            say('bug', message[1], 'KeyError: 1')",
        )
        heard = []
        try:
            with pytest.raises(Bug, match="KeyError: 1"):
                await backend.run(Task(), heard.append)
        finally:
            await backend.close(1)
        return heard

    assert asyncio.run(run()) == [Reported("0"), Reported("1"), Reported("2")]


def test_a_cancelled_task_may_still_end_with_something(monkeypatch):
    async def run():
        begun = "say('event', message[1], Reported(''))"
        kept = await faked(monkeypatch, begun, "say('done', message[1], 'the best so far')")
        left = await faked(monkeypatch, begun, "say('cancelled', message[1])")
        try:
            assert await cancelled_when_begun(kept) == "the best so far"
            with pytest.raises(asyncio.CancelledError):
                await cancelled_when_begun(left)
            assert not left.ended
        finally:
            await kept.close(1)
            await left.close(1)

    asyncio.run(run())


def test_one_that_does_not_answer_to_a_cancellation_is_ended(monkeypatch):
    monkeypatch.setattr(client_module, "CANCEL_S", 0.2)

    async def run():
        backend = await faked(monkeypatch, "say('event', message[1], Reported(''))", "time.sleep(100)")
        with pytest.raises(asyncio.CancelledError):
            await cancelled_when_begun(backend)
        while not backend.ended:  # noqa: ASYNC110 - nothing says when
            await asyncio.sleep(0.01)
        with pytest.raises(TargetUnreachable, match="Try again"):
            await backend.run(Task())
        await backend.close(1)

    asyncio.run(run())


def test_one_that_is_killed_says_so_to_whoever_waits(monkeypatch):
    async def run():
        backend = await faked(monkeypatch, "say('event', message[1], Reported(''))")
        try:
            with pytest.raises(TargetUnreachable, match=r"target 'offline' has ended \(status -9\)"):
                await backend.run(Task(), lambda _: os.kill(backend.pid, signal.SIGKILL))
        finally:
            await backend.close(1)

    asyncio.run(run())


def test_a_listener_that_fails_ends_its_own_task_alone(monkeypatch):
    def fails(_):
        raise KeyError("shown wrongly")

    async def run():
        backend = await faked(monkeypatch, "say('event', message[1], Reported(''))", "say('cancelled', message[1])")
        try:
            with pytest.raises(KeyError, match="shown wrongly"):
                await backend.run(Task(), fails)
            with pytest.raises(asyncio.CancelledError):
                await cancelled_when_begun(backend)
        finally:
            await backend.close(1)

    asyncio.run(run())


def test_what_is_no_message_ends_it(monkeypatch):
    async def run():
        backend = await faked(monkeypatch, r"os.write(1, bytes(7) + b'\x03abc')")
        try:
            with pytest.raises(TargetUnreachable, match="cannot be read"):
                await backend.run(Task())
        finally:
            await backend.close(1)

    asyncio.run(run())


STARTED = """
import asyncio, sys, time
from pathlib import Path
from tritonforge.backend.client import _PROGRAM
async def main():
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", _PROGRAM.format(path=[p for p in sys.path if p]),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True)
    print(process.pid, flush=True)
    time.sleep(100)
asyncio.run(main())
"""


def test_input_that_is_no_message_ends_it_and_is_in_the_log():
    program = client_module._PROGRAM.format(path=[part for part in sys.path if part])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-P", "-c", program], **pipes) as process:
        process.stdin.write(bytes(7) + b"\x03abc")
        process.stdin.flush()
        process.wait(60)  # its input is open all the while
        assert b"UnpicklingError" in process.stderr.read()


def test_it_ends_when_its_server_is_killed():
    server = subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE)
    pid = int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()
    until = time.monotonic() + 30
    while (found := Path(f"/proc/{pid}/stat")).exists() and time.monotonic() < until:
        if found.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not found.exists()
