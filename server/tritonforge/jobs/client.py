"""The client of a worker: sends requests over a channel and hands every answer to whoever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tritonforge.domain.codec import PROTOCOL_VERSION, CodecError
from tritonforge.domain.errors import TargetUnreachable, TritonForgeError
from tritonforge.domain.frames import Frame, FrameError, FrameParser, body_of, message, pack
from tritonforge.domain.messages import Failure, Limits, Request
from tritonforge.domain.target import Target, WorkerInfo
from tritonforge.jobs.errors import JobError
from tritonforge.targets import Channel, ProcessTransport, Transport

R = TypeVar("R")
OnProgress = Callable[[str, float | None], None]
"""Called with a message and, where known, the fraction done (0–1)."""

_LARGE = 1 << 18
"""Bytes of a payload from which on it is decoded beside the event loop, which must stay responsive."""


@dataclass(frozen=True)
class _Pending:
    answer: asyncio.Future[Frame]
    on_progress: OnProgress | None


class Worker:
    """A connected worker. `hello` is what it said of itself; any number of `run` may be under way at once."""

    def __init__(self, name: str, channel: Channel, limits: Limits) -> None:
        self._name = name
        self._channel = channel
        self._limits = limits
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._ended: TritonForgeError | None = None
        self._hello: asyncio.Future[WorkerInfo] = asyncio.get_running_loop().create_future()
        self._receiver = asyncio.create_task(self._receive())

    @property
    def hello(self) -> WorkerInfo:
        """What the worker said of itself; torch, triton and GPUs are known to a `Describe` job only."""
        return self._hello.result()

    async def run(
        self,
        request: Request[R],
        *,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        priority: int = 0,
    ) -> R:
        """Have the worker do a job and return its result. Lower `priority` goes first, then who came first.

        Cancelling the task that waits here ends the job on the worker, which goes on with others.

        Raises:
            JobError: when the job fails.
            TargetUnreachable: when the worker is gone.
        """
        if self._ended is not None:
            raise self._ended
        bounds = limits or self._limits
        self._last_id += 1
        number = self._last_id
        pending = _Pending(asyncio.get_running_loop().create_future(), on_progress)
        self._pending[number] = pending
        try:
            self._send(
                message(
                    "request",
                    request,
                    id=number,
                    job=type(request).__name__,
                    seconds=bounds.seconds,
                    memory_bytes=bounds.memory_bytes,
                    priority=priority,
                )
            )
            await self._channel.drain()
            frame = await pending.answer
        except asyncio.CancelledError:
            # Whoever is cancelled while it waits for a future cancels the future, too.
            if not pending.answer.done() or pending.answer.cancelled():
                self._send(message("cancel", id=number))
            raise
        finally:
            self._pending.pop(number, None)
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()  # seen, even when the task was cancelled just then
        result: R = await self._decode(frame, type(request).result)
        return result

    async def _decode(self, frame: Frame, kind: Any) -> Any:
        wanted = Failure if frame.kind == "failure" else kind
        try:
            if len(frame.payload) < _LARGE:
                body = body_of(frame, wanted)
            else:
                body = await asyncio.to_thread(body_of, frame, wanted)
        except CodecError as error:
            raise JobError(Failure("protocol", f"The worker's answer cannot be read: {error}.")) from error
        if frame.kind == "failure":
            raise JobError(body)
        return body

    def _send(self, frame: Frame) -> None:
        for piece in pack(frame):
            if piece:
                self._channel.write(piece)

    async def _receive(self) -> None:
        parser = FrameParser()
        try:
            while data := await self._channel.read():
                for frame in parser.feed(data):
                    self._take(frame)
            what = "has ended"
        except (FrameError, CodecError) as error:
            what = f"sent what cannot be read ({error})"
        except OSError as error:
            what = f"cannot be read from ({error.strerror or error})"
        self._end(
            TargetUnreachable(f"The worker of target {self._name!r} {what}{await _said(self._channel)}.", "Try again.")
        )

    def _take(self, frame: Frame) -> None:
        if frame.version != PROTOCOL_VERSION:
            sentence = f"The worker of target {self._name!r} speaks protocol {frame.version}, not {PROTOCOL_VERSION}."
            self._end(TargetUnreachable(sentence, "Restart it with the same version of TritonForge."))
            return
        if frame.kind == "hello":
            if not self._hello.done():
                self._hello.set_result(body_of(frame, WorkerInfo))
            return
        pending = self._pending.get(frame.header.get("id", 0))
        if pending is None:
            return  # the answer to a job that was cancelled meanwhile
        if frame.kind == "progress":
            self._report(pending, frame)
        elif frame.kind in {"result", "failure"} and not pending.answer.done():
            pending.answer.set_result(frame)

    def _report(self, pending: _Pending, frame: Frame) -> None:
        if pending.on_progress is None or pending.answer.done():
            return
        try:
            pending.on_progress(str(frame.header.get("message", "")), frame.header.get("fraction"))
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
        self._receiver.cancel()
        await asyncio.wait([self._receiver])
        if self._hello.done() and not self._hello.cancelled():
            self._hello.exception()
        await self._channel.close()


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
) -> AsyncIterator[Worker]:
    """Start the worker of `target`, and end it with all its processes when the block is left.

    `limits` bound every job that brings none of its own. `warm` names the zygotes to start at once (their imports take
    seconds); the others start with the first job that needs them. `timeout` bounds the connection alone, in seconds.
    `log` gets every line that the worker writes to stderr. `transport` reaches the worker in another way than the
    target says.

    Raises:
        TargetUnreachable: when no worker answers, with the reason.
    """
    reach = transport or ProcessTransport(target, {"warm": list(warm)}, log)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    channel = await reach.open(timeout)
    worker = Worker(target.name, channel, limits or Limits())
    try:
        try:
            await asyncio.wait_for(asyncio.shield(worker._hello), max(0.1, deadline - loop.time()))  # noqa: SLF001
        except TimeoutError:
            sentence = f"The worker of target {target.name!r} started but said nothing within {timeout:g} s"
            raise TargetUnreachable(f"{sentence}{await _said(channel)}.") from None
        yield worker
    finally:
        await worker._close()  # noqa: SLF001 - leaving the block is the only way to close
