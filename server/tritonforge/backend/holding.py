"""Something that is opened once for many: whoever waits for it may be cancelled, and it stays open for the others."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

R = TypeVar("R")


class Held(Generic[R]):
    """What a context manager opens, held open by a task of its own, which closes it, too."""

    def __init__(self, manager: AbstractAsyncContextManager[R]) -> None:
        """Begin to open it. Needs a running event loop."""
        self._ready: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self.task = asyncio.create_task(self._hold(manager))
        """Done once it is closed, or could not be opened."""
        # Here, since a task that is cancelled before its first step never takes it.
        self.task.add_done_callback(lambda _: self._ready.cancel())

    async def wait(self) -> R:
        """Return what was opened.

        Raises:
            Exception: whatever the manager raised instead of opening it.
        """
        # Shielded: whoever waits may be cancelled, and the others go on waiting for the same.
        return await asyncio.shield(self._ready)

    @property
    def failed(self) -> bool:
        """Whether it could not be opened, or was closed before it was."""
        return self._ready.done() and (self._ready.cancelled() or self._ready.exception() is not None)

    @property
    def opened(self) -> R | None:
        """What was opened, closed again by now or not; None as long as it is not, and when it could not be."""
        return self._ready.result() if self._ready.done() and not self.failed else None

    def close(self) -> None:
        """Have it closed, and opening it given up."""
        self._closing.set()
        if not self._ready.done():
            self.task.cancel()

    async def _hold(self, manager: AbstractAsyncContextManager[R]) -> None:
        try:
            async with manager as opened:
                self._ready.set_result(opened)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - for whoever waits
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # seen, even when nobody waits any more
