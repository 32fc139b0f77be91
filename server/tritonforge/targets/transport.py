"""What the rest of the server sees of a target: a way to open a channel of bytes to its worker."""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    """Bytes to and from one worker, from its hello on."""

    async def read(self) -> bytes:
        """Return what has arrived, waiting for it; empty when the worker has ended."""

    def write(self, data: bytes) -> None:
        """Queue bytes; never waits."""

    async def drain(self) -> None:
        """Wait until what is queued is small enough to queue more."""

    async def last_words(self) -> str:
        """Return the last lines that the worker, or the command that reaches it, wrote to stderr; "" when none."""

    async def close(self) -> None:
        """End the worker with all its processes, within two seconds."""


class Transport(Protocol):
    """How to reach a worker."""

    async def open(self, timeout: float) -> Channel:  # noqa: ASYNC109 - its error says what was seen until then
        """Start a worker, in `timeout` seconds at most.

        Raises:
            TargetUnreachable: when it does not start, with the reason in one sentence.
        """
