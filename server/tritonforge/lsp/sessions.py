"""Open targets: one backend for each, started when first needed and kept warm with its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tritonforge.backend.client import Backend
from tritonforge.backend.holding import Held
from tritonforge.backend.tasks import Opening
from tritonforge.config import Settings
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.target import Target

_GRACE_S = 3.0
Key = tuple[str, str | None, str | None, Target | None]


class Sessions:
    """The open targets of all workspaces."""

    def __init__(self) -> None:
        """Begin with none open."""
        self._held: dict[Key, Held[Backend]] = {}
        self._grace_s = _GRACE_S
        self._problems: dict[Key, str] = {}
        self.remembered: dict[Key, TargetInfo | None] = {}
        """What earlier processes were told by workers that are not open here yet."""

    async def get(self, settings: Settings, name: str | None, python: str | None) -> Backend:
        """Return what works on a target, starting it when it is not there yet, or not there any more.

        Raises:
            UsageError: no such target is configured.
            TargetUnreachable: its worker does not start; the next call tries again.
        """
        key = key_of(settings, name, python)
        held = self._held.get(key)
        if held is not None and held.opened is not None and held.opened.ended:
            held.close()
            held = None
        if held is None or held.failed:
            held = self._held[key] = Held(self._backend(key, Opening(settings, name, python)))
        return await held.wait()

    def info(self, key: Key) -> TargetInfo | None:
        """Return what an open target says of itself."""
        held = self._held.get(key)
        return held.opened.info if held is not None and held.opened is not None else None

    def problem(self, key: Key) -> str | None:
        """Return why the target could not be opened when that was last tried."""
        return self._problems.get(key)

    @asynccontextmanager
    async def _backend(self, key: Key, opening: Opening) -> AsyncIterator[Backend]:
        try:
            backend = await Backend.start(opening)
        except Exception as error:
            self._problems[key] = str(error)
            raise
        self._problems.pop(key, None)
        try:
            yield backend
        finally:
            await backend.close(self._grace_s)

    async def close(self, seconds: float = _GRACE_S) -> None:
        """End every backend with its worker; within so many seconds, whatever they do."""
        self._grace_s = seconds
        tasks = [held.task for held in self._held.values()]
        for held in self._held.values():
            held.close()
        self._held.clear()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds + 0.1)
            for task in late:
                task.cancel()


def key_of(settings: Settings, name: str | None, python: str | None) -> Key:
    """Return what makes a session another one: the root, the target with its definition, the interpreter."""
    wanted = name or settings.default_target
    return str(settings.root), wanted, python, settings.targets.get(wanted)
