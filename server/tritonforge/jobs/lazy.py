"""A worker that is started when the first job needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tritonforge.domain.messages import Limits, Request
from tritonforge.domain.target import WorkerInfo
from tritonforge.jobs.client import OnProgress, Worker

R = TypeVar("R")


class LazyWorker(Worker):
    """Stands for a worker of which everything is known that `hello` says; who runs a job waits for its start."""

    def __init__(self, hello: WorkerInfo, start: Callable[[], Awaitable[Worker]]) -> None:
        self._known = hello
        self._start = start
        self._started: Worker | None = None
        self._starting = asyncio.Lock()

    @property
    def hello(self) -> WorkerInfo:
        """What the worker said of itself when it was last asked."""
        return self._known

    async def run(
        self,
        request: Request[R],
        *,
        limits: Limits | None = None,
        on_progress: OnProgress | None = None,
        priority: int = 0,
        gpu: tuple[int, int] | None = None,
    ) -> R:
        """Start the worker if need be, and have it do a job.

        Raises:
            JobError: when the job fails.
            TargetUnreachable: when the worker does not start, or is gone.
        """
        async with self._starting:
            if self._started is None:
                self._started = await self._start()
        return await self._started.run(request, limits=limits, on_progress=on_progress, priority=priority, gpu=gpu)
