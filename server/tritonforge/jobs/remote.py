"""A worker on another machine: its files are sent, and a connection that is lost is made again."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from tritonforge.config.settings import SendingSettings
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.frames import Frame
from tritonforge.domain.messages import Describe, Limits, Request
from tritonforge.domain.target import WorkerInfo
from tritonforge.jobs.client import OnProgress, Worker, answer_of, request_frame
from tritonforge.jobs.errors import JobError
from tritonforge.jobs.shipping import Shipment, Shipping

R = TypeVar("R")
_log = logging.getLogger(__name__)
_TRIES = 3
"""How often a job may lose its connection: the third time it is probably the job that costs it."""
_ROUNDS = 8
"""How often a job is repeated because a file was found missing."""
_MISSING = (b"No module named", b"cannot import name", b"No such file or directory", b"is not kept here")


@dataclass(frozen=True)
class Patience:
    """How a lost connection is made again: seconds before the first try, the longest pause, and when it is given up."""

    first: float = 0.5
    longest: float = 30.0
    whole: float = 300.0


class RemoteWorker(Worker):
    """Stands for a worker whose connection may be made several times; jobs under way when it is lost are repeated."""

    def __init__(
        self,
        name: str,
        dial: Callable[[], AbstractAsyncContextManager[Worker]],
        limits: Limits,
        patience: Patience,
        sending: SendingSettings | None = None,
    ) -> None:
        self._name = name
        self._dial = dial
        self._limits = limits
        self._patience = patience
        self._shipping = Shipping(sending or SendingSettings())
        self._stack = AsyncExitStack()
        self._current: Worker | None = None
        self._turn = asyncio.Lock()
        self._described: WorkerInfo | None = None
        self._given_up: TargetUnreachable | None = None
        self.reconnections = 0
        """How often the connection was made again."""

    @property
    def hello(self) -> WorkerInfo:
        """What the worker said of itself when it was last connected."""
        if self._current is None:
            raise RuntimeError("the worker was not connected yet")
        return self._current.hello

    @property
    def ended(self) -> bool:
        """Whether no connection will be made any more."""
        return self._given_up is not None

    async def open(self) -> None:
        """Make the first connection, which has to succeed.

        Raises:
            TargetUnreachable: when no worker answers.
        """
        self._current = await self._stack.enter_async_context(self._dial())

    async def close(self) -> None:
        """End the worker."""
        self._given_up = self._given_up or TargetUnreachable(f"The connection to target {self._name!r} was closed.")
        await self._stack.aclose()

    async def run(
        self,
        request: Request[R],
        *,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        priority: int = 0,
        gpu: tuple[int, int] | None = None,
    ) -> R:
        """See `Worker.run`; the files that the request needs are sent first.

        Raises:
            JobError: when the job fails.
            TargetUnreachable: when the worker is gone, and cannot be reached again.
        """
        bounds = limits or self._limits
        lost = rounds = 0
        while True:
            worker = await self._connected(on_progress)
            try:
                shipment = await self._shipping.send(worker, request)

                def make(number: int, sent: Shipment = shipment) -> Frame:
                    return request_frame(number, sent.request, bounds, priority=priority, gpu=gpu, keep=sent.keep)

                frame = await _exchange(worker, shipment, make, on_progress, bounds.seconds)
            except TargetUnreachable:
                if not worker.lost:
                    self._shipping.forget()  # of what was under way, something may not have arrived
                    raise
                lost += 1
                if lost >= _TRIES:
                    raise
                continue
            note = ""
            if worker.files is not None and any(mark in frame.payload for mark in _MISSING):
                rounds += 1
                said = frame.payload.decode("utf-8", "replace")
                more, note = await self._shipping.missing(request, said, again=rounds == 1)
                if more and rounds <= _ROUNDS:
                    continue
            try:
                result: R = await answer_of(frame, type(request).result)
            except JobError as error:
                if not note:
                    raise
                words = error.failure.message.rstrip(".")
                raise JobError(dataclasses.replace(error.failure, message=f"{words} ({note}).")) from error
            if isinstance(request, Describe) and isinstance(result, WorkerInfo):
                self._described = self._described or result
            return result

    async def exchange(
        self, make: Callable[[int], Frame], on_progress: OnProgress | None = None, seconds: float = 60.0
    ) -> Frame:
        """See `Worker.exchange`; it is not repeated."""
        return await (await self._connected(on_progress)).exchange(make, on_progress, seconds)

    async def _connected(self, on_progress: OnProgress | None) -> Worker:
        async with self._turn:
            if self._given_up is not None:
                raise self._given_up
            if self._current is None:
                await self.open()
            assert self._current is not None
            if self._current.ended and self._current.lost:
                try:
                    self._current = await self._again(on_progress)
                except TargetUnreachable as error:
                    self._given_up = error
                    raise
            return self._current

    async def _again(self, on_progress: OnProgress | None) -> Worker:
        """Connect again, with longer and longer pauses.

        Raises:
            TargetUnreachable: when it cannot be reached for too long, or is another machine now.
        """
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        deadline = time.monotonic() + self._patience.whole
        pause = self._patience.first
        while True:
            words = f"the connection to {self._name} is lost; trying again in {pause:.1f} s"
            _log.warning(words)
            if on_progress is not None:
                on_progress(words, None)
            # Many clients of one machine should not all come back at the same moment.
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - not for secrets
            try:
                worker = await self._stack.enter_async_context(self._dial())
                await self._check_same(worker)
            except TargetUnreachable as error:
                await self._stack.aclose()
                self._stack = AsyncExitStack()
                if time.monotonic() + pause > deadline or isinstance(error, _Other):
                    raise
                pause = min(self._patience.longest, 2 * pause)
                continue
            self.reconnections += 1
            return worker

    async def _check_same(self, worker: Worker) -> None:
        """Refuse another machine: its times cannot be set beside those that were taken."""
        if self._described is None:
            return
        now = await worker.run(Describe())
        for what in ("gpus", "torch", "triton", "python"):
            before, after = getattr(self._described, what), getattr(now, what)
            if before != after:
                raise _Other(
                    f"Target {self._name!r} came back as another machine ({what}: {after} in place of {before}), so "
                    "that results from before and after cannot be compared.",
                    "Begin again.",
                )


class _Other(TargetUnreachable):
    """The target is not the machine that it was."""


async def _exchange(
    worker: Worker, shipment: Shipment, make: Callable[[int], Frame], on_progress: OnProgress | None, seconds: float
) -> Frame:
    """Have a job done whose files are on their way, and return the answer with our names for files."""

    def progress(text: str, done: float | None) -> None:
        assert on_progress is not None
        on_progress(shipment.message_here(text), done)

    frame = await worker.exchange(make, progress if on_progress is not None else None, seconds)
    await shipment.arrived()
    return shipment.here(frame)


@asynccontextmanager
async def remote(
    name: str,
    dial: Callable[[], AbstractAsyncContextManager[Worker]],
    limits: Limits | None = None,
    patience: Patience | None = None,
    sending: SendingSettings | None = None,
) -> AsyncIterator[RemoteWorker]:
    """Open the worker that `dial` connects to, and end it when the block is left.

    Raises:
        TargetUnreachable: when no worker answers.
    """
    worker = RemoteWorker(name, dial, limits or Limits(), patience or Patience(), sending)
    try:
        await worker.open()
        yield worker
    finally:
        await worker.close()
