"""The target that a backend works on: opened when first needed, and again when its worker has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tritonforge.backend.tasks import Opening
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.jobs.session import Session, open_session


@dataclass
class _Kept:
    ready: asyncio.Future[Session]
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class OpenTarget:
    """One target with its worker, kept warm between tasks."""

    def __init__(self, opening: Opening) -> None:
        """Open nothing yet."""
        self._opening = opening
        self._kept: _Kept | None = None

    async def open(self) -> Session:
        """Return the session, opening it when it is not open.

        Raises:
            UsageError: no such target is configured.
            TargetUnreachable: its worker does not start; the next call tries again.
        """
        kept = self._kept
        if kept is not None and kept.ready.done() and (kept.ready.cancelled() or kept.ready.exception()):
            kept = None
        if kept is not None and kept.ready.done() and kept.ready.result().worker.ended:
            self._drop(kept)  # killed, or lost in a task that made the best of it
            kept = None
        if kept is None:
            kept = self._kept = _Kept(asyncio.get_running_loop().create_future())
            # A task of its own holds the session open: it must be closed by the task that opened it.
            kept.task = asyncio.create_task(self._hold(kept))
        # Shielded: whoever waits may be cancelled, and the others go on waiting for the same worker.
        return await asyncio.shield(kept.ready)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Have the session for a task; where that finds its worker gone, the next one gets another."""
        session, kept = await self.open(), self._kept
        try:
            yield session
        except TargetUnreachable:
            if kept is not None:
                self._drop(kept)
            raise

    async def close(self, seconds: float) -> None:
        """End the worker; within so many seconds, whatever it does."""
        kept, self._kept = self._kept, None
        if kept is None or kept.task is None:
            return
        kept.closing.set()
        if not kept.ready.done():
            kept.task.cancel()
        await asyncio.wait({kept.task}, timeout=seconds)

    def _drop(self, kept: _Kept) -> None:
        kept.closing.set()
        if self._kept is kept:
            self._kept = None

    async def _hold(self, kept: _Kept) -> None:
        wanted = self._opening
        try:
            async with open_session(wanted.settings, wanted.name, python=wanted.python) as session:
                kept.ready.set_result(session)
                await kept.closing.wait()
        except BaseException as error:
            if not kept.ready.done():
                if isinstance(error, Exception):
                    kept.ready.set_exception(error)
                    kept.ready.exception()  # seen, even when nobody waits any more
                else:
                    kept.ready.cancel()
            if not isinstance(error, Exception):
                raise
