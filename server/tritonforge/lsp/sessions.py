"""Open targets: one backend for each, started when first needed and kept warm with its worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tritonforge.backend.client import Backend
from tritonforge.backend.tasks import Opening
from tritonforge.config import Settings
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.target import Target

_GRACE_S = 3.0


@dataclass
class _Kept:
    ready: asyncio.Future[Backend]
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    grace_s: float = _GRACE_S


Key = tuple[str, str | None, str | None, Target | None]


class Sessions:
    """The open targets of all workspaces."""

    def __init__(self) -> None:
        """Begin with none open."""
        self._kept: dict[Key, _Kept] = {}
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
        kept = self._kept.get(key)
        backend = _opened(kept)
        if kept is not None and backend is not None and backend.ended:
            kept.closing.set()
            kept = None
        if kept is None:
            kept = _Kept(asyncio.get_running_loop().create_future())
            self._kept[key] = kept
            # A task of its own: whoever asks first may be cancelled while others wait for the same worker.
            kept.task = asyncio.create_task(self._hold(key, kept, Opening(settings, name, python)))
        return await asyncio.shield(kept.ready)

    def info(self, key: Key) -> TargetInfo | None:
        """Return what an open target says of itself."""
        backend = _opened(self._kept.get(key))
        return backend.info if backend is not None else None

    def problem(self, key: Key) -> str | None:
        """Return why the target could not be opened when that was last tried."""
        return self._problems.get(key)

    async def _hold(self, key: Key, kept: _Kept, opening: Opening) -> None:
        try:
            backend = await Backend.start(opening)
            try:
                self._problems.pop(key, None)
                kept.ready.set_result(backend)
                await kept.closing.wait()
            finally:
                await backend.close(kept.grace_s)
        except BaseException as error:
            if not kept.ready.done():
                if isinstance(error, Exception):
                    self._problems[key] = str(error)
                    kept.ready.set_exception(error)
                    kept.ready.exception()  # seen, even when nobody waits any more
                else:
                    kept.ready.cancel()
            if not isinstance(error, Exception):
                raise
        finally:
            if self._kept.get(key) is kept:
                del self._kept[key]

    async def close(self, seconds: float = _GRACE_S) -> None:
        """End every backend with its worker; within so many seconds, whatever they do."""
        kept = tuple(self._kept.values())
        self._kept.clear()
        tasks = [one.task for one in kept if one.task is not None]
        for one in kept:
            one.grace_s = seconds
            one.closing.set()
            if not one.ready.done() and one.task is not None:
                one.task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds + 0.1)
            for task in late:
                task.cancel()


def _opened(kept: _Kept | None) -> Backend | None:
    ready = kept.ready if kept is not None else None
    usable = ready is not None and ready.done() and not ready.cancelled() and not ready.exception()
    return ready.result() if ready is not None and usable else None


def key_of(settings: Settings, name: str | None, python: str | None) -> Key:
    """Return what makes a session another one: the root, the target with its definition, the interpreter."""
    wanted = name or settings.default_target
    return str(settings.root), wanted, python, settings.targets.get(wanted)
