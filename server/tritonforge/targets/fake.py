"""A target without a process: answers every request from a table, for tests of whatever runs jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tritonforge.domain.codec import PROTOCOL_VERSION
from tritonforge.domain.frames import Frame, FrameParser, body_of, message, pack
from tritonforge.domain.messages import JOBS, Failure
from tritonforge.domain.target import WorkerInfo

Answers = Mapping[type, Callable[[Any], Any]]
"""Request type → function of the request that returns its result or a `Failure`."""

FAKE_WORKER = WorkerInfo(PROTOCOL_VERSION, "3.12.0", "python", "fake", "2.13.0", "3.7.1", cores=4, lanes=3)


class FakeTransport:
    """A `Transport` to a worker that answers at once; `requests` are those it was sent, in order."""

    def __init__(self, answers: Answers, hello: WorkerInfo = FAKE_WORKER) -> None:
        self._answers = answers
        self._hello = hello
        self.requests: list[Any] = []

    async def open(self, timeout: float) -> _FakeChannel:  # noqa: ARG002, ASYNC109 - the protocol's signature
        """Open a channel on which the hello already waits."""
        return _FakeChannel(self._hello, self._answer)

    def _answer(self, frame: Frame) -> Frame:
        request = body_of(frame, JOBS[frame.header["job"]])
        self.requests.append(request)
        answer = self._answers.get(type(request))
        result = answer(request) if answer else Failure("unsupported", f"The fake has no {type(request).__name__}.")
        return message("failure" if isinstance(result, Failure) else "result", result, id=frame.header["id"])


class _FakeChannel:
    def __init__(self, hello: WorkerInfo, answer: Callable[[Frame], Frame]) -> None:
        self._answer = answer
        self._parser = FrameParser()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._send(message("hello", hello))

    def _send(self, frame: Frame) -> None:
        self._outgoing.put_nowait(b"".join(pack(frame)))

    async def read(self) -> bytes:
        return await self._outgoing.get()

    def write(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            if frame.kind == "request":
                self._send(self._answer(frame))

    async def drain(self) -> None:
        return

    async def last_words(self) -> str:
        return ""

    async def close(self) -> None:
        self._outgoing.put_nowait(b"")
