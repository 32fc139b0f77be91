"""The client of a worker: sends requests over a channel and hands every answer to whoever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tritonforge.domain.codec import PROTOCOL_VERSION, CodecError
from tritonforge.domain.errors import TargetUnreachable, TritonForgeError
from tritonforge.domain.frames import Frame, FrameError, FrameParser, body_of, message
from tritonforge.domain.messages import Failure, Limits, Request
from tritonforge.domain.parts import GOT, PART, Inbox, Outbox, Window
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs.errors import JobError
from tritonforge.targets import Channel, ProcessTransport, Transport
from tritonforge.targets.text import plain

R = TypeVar("R")
OnProgress = Callable[[str, float | None], None]
"""Called with a message and, where known, the fraction done (0–1)."""

MOST_BYTES = 1 << 30
"""The largest frame that a worker may send: it is held in memory, and the other side may be broken or hostile."""
_START_S = 240.0
"""What the start of a zygote and of a lane may take besides a job's own limit."""
_AGAIN = "Try again."
_LARGE = 1 << 18
"""Bytes of a payload from which on it is decoded beside the event loop, which must stay responsive."""


@dataclass(frozen=True)
class _Pending:
    answer: asyncio.Future[Frame]
    on_progress: OnProgress | None
    seconds: float


@dataclass(frozen=True)
class Heartbeat:
    """How a connection that may go silent is watched, in seconds.

    `every`: how long it may be quiet before it is asked whether it lives; `patience`: how long it may take to answer;
    `silence`: after how long without a word the worker takes this side for dead, and ends.
    """

    every: float = 10.0
    patience: float = 20.0
    silence: float = 90.0


class Worker:
    """A connected worker. `hello` is what it said of itself; any number of `run` may be under way at once."""

    def __init__(self, name: str, channel: Channel, limits: Limits, heartbeat: Heartbeat | None = None) -> None:
        self._name = name
        self._channel = channel
        self._limits = limits
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._ended: TritonForgeError | None = None
        self._hello: asyncio.Future[WorkerInfo] = asyncio.get_running_loop().create_future()
        self.files: str | None = None
        """Where the worker keeps files of the workspace; None where it needs none."""
        self.lost = False
        """Whether it ended because the connection did, so that another may be made."""
        self._outbox = Outbox()
        self._window = Window()
        self._inbox = Inbox(MOST_BYTES)
        self._may_send = asyncio.Event()
        self._heard = self._answered = time.monotonic()
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._pump())]
        if heartbeat is not None:
            self._tasks.append(asyncio.create_task(self._beat(heartbeat)))

    @property
    def hello(self) -> WorkerInfo:
        """What the worker said of itself; torch, triton and GPUs are known to a `Describe` job only."""
        return self._hello.result()

    @property
    def ended(self) -> bool:
        """Whether the connection is over."""
        return self._ended is not None

    async def run(
        self,
        request: Request[R],
        *,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        priority: int = 0,
        gpu: tuple[int, int] | None = None,
    ) -> R:
        """Have the worker do a job and return its result. Lower `priority` goes first, then who came first.

        `gpu`: which GPU a device job runs on, by its place among those of the machine, and how many of them share the
        work; None is the first, alone.
        Cancelling the task that waits here ends the job on the worker, which goes on with others.

        Raises:
            JobError: when the job fails.
            TargetUnreachable: when the worker is gone.
        """
        bounds = limits or self._limits
        frame = await self.exchange(
            lambda number: request_frame(number, request, bounds, priority=priority, gpu=gpu),
            on_progress,
            bounds.seconds,
        )
        result: R = await answer_of(frame, type(request).result)
        return result

    async def exchange(
        self, make: Callable[[int], Frame], on_progress: OnProgress | None = None, seconds: float = 60.0
    ) -> Frame:
        """Send the frame that `make` makes with an id, and return the one that answers it.

        `seconds`: how long it may take once its turn has come.

        Raises:
            TargetUnreachable: when the worker is gone.
        """
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        number = self._last_id
        if not self._pending:
            self._answered = time.monotonic()
        pending = _Pending(asyncio.get_running_loop().create_future(), on_progress, seconds)
        self._pending[number] = pending
        try:
            self._send(make(number))
            return await pending.answer
        except asyncio.CancelledError:
            # Whoever is cancelled while it waits for a future cancels the future, too.
            if not pending.answer.done() or pending.answer.cancelled():
                self._cancel(number)
            raise
        finally:
            self._pending.pop(number, None)
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()  # seen, even when the task was cancelled just then

    def _cancel(self, number: int) -> None:
        if self._outbox.drop(number):
            self._flush()
        else:
            self._send(message("cancel", id=number))

    def _send(self, frame: Frame) -> None:
        self._outbox.put(frame)
        self._flush()

    def _flush(self) -> None:
        """Write small frames now; large ones are the pump's."""
        if data := self._outbox.take_small():
            self._channel.write(data)
        if self._outbox.has_large and self._window.open:
            self._may_send.set()

    async def _pump(self) -> None:
        """Write parts of large frames, as many as the worker confirms."""
        while True:
            await self._may_send.wait()
            self._may_send.clear()
            while self._outbox and self._window.open:
                data = self._outbox.take()
                self._window.sent(len(data), time.monotonic())
                self._channel.write(data)
                await self._channel.drain()

    async def _beat(self, heartbeat: Heartbeat) -> None:
        while True:
            self._send(message("ping", silence=heartbeat.silence))
            await asyncio.sleep(heartbeat.every)
            asked = time.monotonic()
            if asked - self._heard > heartbeat.every:
                self._send(message("ping", silence=heartbeat.silence))
                await self._until_heard(asked, heartbeat.patience)
                await asyncio.sleep(0)  # what has arrived while this process was held up is read first
                if self._heard < asked:
                    sentence = f"The connection to target {self._name!r} is dead: nothing came for"
                    self.lost = True
                    self._end(TargetUnreachable(f"{sentence} {time.monotonic() - self._heard:.0f} s.", _AGAIN))
                    return
            self._hold_to_its_word()

    async def _until_heard(self, since: float, patience: float) -> None:
        deadline = time.monotonic() + patience
        while self._heard < since and time.monotonic() < deadline:  # noqa: ASYNC110 - once in a while, and for tests too
            await asyncio.sleep(min(0.2, patience / 10))

    def _hold_to_its_word(self) -> None:
        """Give up on a worker that lives but answers nothing: one of its jobs must end within the longest limit."""
        if not self._pending:
            return
        longest = max(pending.seconds for pending in self._pending.values())
        if time.monotonic() - self._answered > longest + _START_S:
            sentence = f"The worker of target {self._name!r} has not answered any job for {longest + _START_S:.0f} s"
            self._end(TargetUnreachable(f"{sentence}.", "See what its machine is doing."))

    async def _receive(self) -> None:
        parser = FrameParser(MOST_BYTES)
        try:
            while data := await self._channel.read():
                self._heard = time.monotonic()
                for frame in parser.feed(data):
                    self._take(frame)
                await asyncio.sleep(0)  # a worker that never pauses must not keep others from their turn
            what, self.lost = "has ended", self._ended is None
        except (FrameError, CodecError) as error:
            what = f"sent what cannot be read ({plain(str(error))})"
        except OSError as error:
            what, self.lost = f"cannot be read from ({error.strerror or error})", self._ended is None
        self._end(TargetUnreachable(f"The worker of target {self._name!r} {what}{await _said(self._channel)}.", _AGAIN))

    def _take(self, frame: Frame) -> None:
        if frame.version != PROTOCOL_VERSION:
            spoken = plain(repr(frame.version))[:40]
            sentence = f"The worker of target {self._name!r} speaks protocol {spoken}, not {PROTOCOL_VERSION}."
            self._end(TargetUnreachable(sentence, "Restart it with the same version of TritonForge."))
            return
        if frame.kind == PART:
            for whole in self._inbox.take(frame):
                self._take(whole)
            return
        if frame.kind == GOT:
            self._window.got(time.monotonic())
            self._flush()
            return
        if frame.kind == "hello":
            self._greet(frame)
            return
        number = frame.header.get("id")
        pending = self._pending.get(number) if isinstance(number, int) else None
        if pending is None:
            return  # the answer to a job that was cancelled meanwhile
        self._answered = time.monotonic() if frame.kind != "progress" else self._answered
        if frame.kind == "progress":
            self._report(pending, frame)
        elif frame.kind in {"result", "failure", "files", "pong"} and not pending.answer.done():
            pending.answer.set_result(frame)

    def _greet(self, frame: Frame) -> None:
        if self._hello.done():
            return
        folder = frame.header.get("files")
        self.files = folder if isinstance(folder, str) and folder.startswith("/") else None
        said: WorkerInfo = body_of(frame, WorkerInfo)
        python, executable, platform = (plain(text, 300) for text in (said.python, said.executable, said.platform))
        self._hello.set_result(dataclasses.replace(said, python=python, executable=executable, platform=platform))

    def _report(self, pending: _Pending, frame: Frame) -> None:
        if pending.on_progress is None or pending.answer.done():
            return
        done = frame.header.get("fraction")
        try:
            pending.on_progress(
                plain(str(frame.header.get("message", ""))),
                float(done) if isinstance(done, int | float) and 0 <= done <= 1 else None,
            )
        except Exception as error:  # noqa: BLE001 - it is the caller's, and goes to the caller
            self._send(message("cancel", id=frame.header["id"]))
            pending.answer.set_exception(error)

    def _end(self, error: TritonForgeError) -> None:
        """Fail everything that waits, now and later."""
        if self._ended is None:
            self._ended = error
        if not self._hello.done():
            self._hello.set_exception(error)
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)

    async def _close(self) -> None:
        self._end(TargetUnreachable(f"The connection to target {self._name!r} was closed."))
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.wait(self._tasks)
            if self._hello.done() and not self._hello.cancelled():
                self._hello.exception()
        finally:  # also when whoever closes is cancelled
            await self._channel.close()


def request_frame(
    number: int,
    request: Request[Any],
    bounds: Limits,
    *,
    priority: int = 0,
    gpu: tuple[int, int] | None = None,
    keep: Callable[[bytes], str | None] | None = None,
) -> Frame:
    """Return the frame that asks for a job."""
    more = {} if gpu is None else {"gpu": gpu}
    return message(
        "request",
        request,
        keep=keep,
        id=number,
        job=type(request).__name__,
        seconds=bounds.seconds,
        memory_bytes=bounds.memory_bytes,
        priority=priority,
        **more,
    )


async def answer_of(frame: Frame, kind: Any) -> Any:
    """Return the result that a frame carries.

    Raises:
        JobError: when it carries a failure, or what cannot be read.
    """
    wanted = Failure if frame.kind == "failure" else kind
    try:
        if len(frame.payload) < _LARGE:
            body = body_of(frame, wanted)
        else:
            body = await asyncio.to_thread(body_of, frame, wanted)
    except CodecError as error:
        raise JobError(Failure("protocol", f"The worker's answer cannot be read: {plain(str(error))}.")) from error
    if frame.kind == "failure":
        raise JobError(dataclasses.replace(body, message=plain(body.message, 10_000)))
    return body


async def _said(channel: Channel) -> str:
    words = await channel.last_words()
    return f" (last lines: {' / '.join(words.splitlines())})" if words else ""


@contextlib.asynccontextmanager
async def connect(
    target: Target,
    *,
    limits: Limits | None = None,
    warm: Sequence[Literal["compile", "interpret"]] = ("compile", "interpret"),
    timeout: float = 30.0,  # noqa: ASYNC109 - the error says what was seen until then
    log: Callable[[str], None] | None = None,
    transport: Transport | None = None,
    heartbeat: Heartbeat | None = None,
) -> AsyncIterator[Worker]:
    """Start the worker of `target`, and end it with all its processes when the block is left.

    `limits` bound every job that brings none of its own. `warm` names the zygotes to start at once (their imports take
    seconds); the others start with the first job that needs them. `timeout` bounds the connection alone, in seconds.
    `log` gets every line that the worker writes to stderr. `transport` reaches the worker in another way than the
    target says. `heartbeat` watches a connection that may go silent.

    Raises:
        TargetUnreachable: when no worker answers, with the reason.
    """
    reach = transport or ProcessTransport(target, {"warm": list(warm)}, log)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    channel = await reach.open(timeout)
    worker = Worker(target.name, channel, limits or Limits(), heartbeat)
    try:
        try:
            await asyncio.wait_for(asyncio.shield(worker._hello), max(0.1, deadline - loop.time()))  # noqa: SLF001
        except TimeoutError:
            sentence = f"The worker of target {target.name!r} started but said nothing within {timeout:g} s"
            raise TargetUnreachable(f"{sentence}{await _said(channel)}.") from None
        yield worker
    finally:
        await worker._close()  # noqa: SLF001 - leaving the block is the only way to close
