"""Several GPUs of one machine: each piece of work keeps to one of them, and they work side by side."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tritonforge.domain.messages import Limits, Request
from tritonforge.domain.target import WorkerInfo
from tritonforge.jobs.client import OnProgress, Worker
from tritonforge.jobs.session import Session

R = TypeVar("R")
T = TypeVar("T")


class OnOneGpu(Worker):
    """A worker whose device jobs run on one GPU of its machine, since times of two GPUs are not those of one."""

    def __init__(self, worker: Worker, gpu: tuple[int, int]) -> None:
        self._worker = worker
        self._gpu = gpu

    @property
    def hello(self) -> WorkerInfo:
        """See `Worker.hello`."""
        return self._worker.hello

    async def run(
        self,
        request: Request[R],
        *,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        priority: int = 0,
        gpu: tuple[int, int] | None = None,
    ) -> R:
        """See `Worker.run`."""
        number = self._gpu if gpu is None else gpu
        return await self._worker.run(request, limits=limits, on_progress=on_progress, priority=priority, gpu=number)


def sessions_of(session: Session) -> tuple[Session, ...]:
    """Return one session for each GPU of the target that is like its first; the session itself where it has one."""
    gpus = session.described.gpus
    if not session.measures or len(gpus) < 2:
        return (session,)
    # A slower GPU beside would only be waited for, and its results would speak of another machine.
    like = [number for number, gpu in enumerate(gpus) if (gpu.name, gpu.arch) == (gpus[0].name, gpus[0].arch)]
    return tuple(dataclasses.replace(session, worker=OnOneGpu(session.worker, (number, len(gpus)))) for number in like)


async def spread(items: Sequence[T], session: Session, work: Callable[[T, Session], Awaitable[R]]) -> list[R | None]:
    """Do `work` on every item, as many at once as the target has GPUs of one kind; results in the order of items.

    The first exception ends the others and is raised, as from a loop. When this task is cancelled, so is the work under
    way; where that makes the best of it and returns what it has, so does this, with None for items without a result.
    """
    free: asyncio.Queue[Session] = asyncio.Queue()
    for one in sessions_of(session):
        free.put_nowait(one)

    async def on_a_free_one(item: T) -> R:
        mine = await free.get()
        try:
            return await work(item, mine)
        finally:
            free.put_nowait(mine)

    tasks = [asyncio.ensure_future(on_a_free_one(item)) for item in items]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        finished = {task for task in tasks if task.done()}
        await _end(tasks)
        me = asyncio.current_task()
        if me is None or not any(_has_result(task) for task in tasks if task not in finished):
            raise
        me.uncancel()
        return [task.result() if _has_result(task) else None for task in tasks]
    failed = next((task for task in tasks if task.done() and not _has_result(task)), None)
    if failed is not None:
        await _end(tasks)
        failed.result()  # raises
    return [task.result() for task in tasks]


async def _end(tasks: Sequence[asyncio.Future[R]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _has_result(task: asyncio.Future[R]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
