"""The target that a backend works on: opened when first needed, and again when its worker has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tritonforge.backend.holding import Held
from tritonforge.backend.tasks import Opening
from tritonforge.domain.errors import TargetUnreachable
from tritonforge.jobs.session import Session, open_session


class OpenTarget:
    """One target with its worker, kept warm between tasks."""

    def __init__(self, opening: Opening) -> None:
        """Open nothing yet."""
        self._opening = opening
        self._held: Held[Session] | None = None

    async def open(self) -> Session:
        """Return the session, opening it when it is not open.

        Raises:
            UsageError: no such target is configured.
            TargetUnreachable: its worker does not start; the next call tries again.
        """
        held = self._held
        if held is not None and held.opened is not None and held.opened.worker.ended:
            self._drop(held)  # killed, or lost in a task that made the best of it
            held = None
        if held is None or held.failed:
            wanted = self._opening
            held = self._held = Held(open_session(wanted.settings, wanted.name, python=wanted.python))
        return await held.wait()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Have the session for a task; where that finds its worker gone, the next one gets another."""
        session, held = await self.open(), self._held
        try:
            yield session
        except TargetUnreachable:
            if held is not None:
                self._drop(held)
            raise

    async def close(self, seconds: float) -> None:
        """End the worker; within so many seconds, whatever it does."""
        held, self._held = self._held, None
        if held is not None:
            held.close()
            await asyncio.wait({held.task}, timeout=seconds)

    def _drop(self, held: Held[Session]) -> None:
        held.close()
        if self._held is held:
            self._held = None
