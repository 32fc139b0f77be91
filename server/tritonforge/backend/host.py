"""The backend's own process: reads tasks, does them beside each other, writes what comes of them.

It has no life of its own: it ends when its input does, whatever it is doing then, and its worker ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Coroutine
from functools import partial
from importlib import import_module
from typing import Any

from tritonforge.backend.target import OpenTarget
from tritonforge.backend.tasks import Event, Opening
from tritonforge.backend.wire import Unpacker, packed, portable
from tritonforge.domain.errors import TritonForgeError
from tritonforge.jobs.session import Session

_READ = 1 << 16
_NICENESS = 5
"""Below whoever types, above the lanes of a worker."""
_CLOSE_S, _STORES_S, _LINGER_S = 1.5, 0.5, 3.0
"""Seconds that the worker and the stores have to end by themselves, and this process, once the input has ended."""
_log = logging.getLogger("tritonforge.backend")


def main() -> None:
    """Serve on standard input and output until the input ends. What else is printed goes to standard error."""
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(own))
    # Threads that still compute, or wait for a locked store, must not keep the process.
    os._exit(0)


async def _serve(own: int) -> None:
    host = Host(own)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read() -> None:
        # A thread, since not every kind of input can be waited for by the loop; and it sees the end of the input even
        # while the loop is held up.
        unpacker = Unpacker()
        try:
            while data := os.read(0, _READ):
                for message in unpacker.feed(data):
                    loop.call_soon_threadsafe(host.take, message)
        except Exception:  # noqa: BLE001 - of a server whose installation was replaced meanwhile, for one
            _log.exception("the input cannot be read")
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)
        time.sleep(_LINGER_S)
        os._exit(1)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    await ended.wait()
    await host.close()


class Host:
    """The tasks under way, and the target that they share."""

    def __init__(self, own: int) -> None:
        """Write messages to the descriptor `own`."""
        self._own = own
        self._target: OpenTarget | None = None
        self._told: Session | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, message: tuple[Any, ...]) -> None:
        """React to a message of the server's."""
        match message:
            case ("open", Opening() as opening):
                self._target = OpenTarget(opening)
                self._begin(0, self._open())
            case ("run", int(number), task):
                self._begin(number, self._run(number, task))
            case ("cancel", int(number)):
                if number in self._tasks:
                    self._tasks[number].cancel()

    async def close(self) -> None:
        """Cancel what is under way, and end the worker."""
        for task in self._tasks.values():
            task.cancel()
        if self._target is not None:
            await self._target.close(_CLOSE_S)
        work = sys.modules.get("tritonforge.backend.work")
        if work is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(work.close_stores), _STORES_S)

    def _begin(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[number] = asyncio.create_task(self._answered(number, work))
        self._tasks[number].add_done_callback(partial(self._ended, number, work))

    async def _answered(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        """Do what was asked for; whatever it fails with is answered, too, since somebody waits for it."""
        try:
            await work
        except TritonForgeError as error:
            self._say(("failed", number, portable(error)))
        except Exception as error:  # noqa: BLE001 - a bug in one task must not end the others
            traceback.print_exc()
            self._say(("bug", number, f"{type(error).__name__}: {error}"))

    def _ended(self, number: int, work: Coroutine[Any, Any, None], task: asyncio.Task[None]) -> None:
        del self._tasks[number]
        work.close()
        # Here, since a task that is cancelled before its first step never takes it.
        if task.cancelled():
            self._say(("cancelled", number))

    async def _open(self) -> None:
        assert self._target is not None
        # Loaded while the worker starts, which takes longer.
        loading = asyncio.create_task(asyncio.to_thread(import_module, "tritonforge.backend.work"))
        self._tell_of(await self._target.open())
        await loading

    async def _run(self, number: int, task: Any) -> None:
        from tritonforge.backend.work import do

        def tell(event: Event) -> None:
            self._say(("event", number, event))

        assert self._target is not None
        async with self._target.session() as session:
            self._tell_of(session)
            result = await do(task, session, tell)
        self._say(("done", number, result))

    def _tell_of(self, session: Session) -> None:
        """Say what the target is, each time that it was opened."""
        if session is not self._told:
            self._told = session
            self._say(("ready", session.info))

    def _say(self, message: tuple[Any, ...]) -> None:
        left = memoryview(packed(message))
        try:
            while left:
                left = left[os.write(self._own, left) :]
        except OSError:
            _log.info("the server is gone")
