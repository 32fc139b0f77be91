"""What is found out once for all who ask, also while it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tritonforge.jobs.together import ended

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass
class _Work(Generic[T]):
    task: asyncio.Future[T]
    waiting: int = 0


@dataclass
class Once(Generic[K, T]):
    """What is found out once for each key: who asks while it is under way waits for the same work.

    Work that nobody waits for any more is cancelled. What failed fails for all who wait, and is tried again by who asks
    next.
    """

    _known: dict[K, T] = field(default_factory=dict)
    _under_way: dict[K, _Work[T]] = field(default_factory=dict)

    def __contains__(self, key: K) -> bool:
        """Tell whether it is known already."""
        return key in self._known

    async def get(self, key: K, find: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what is known under `key`, found out by `find` where it is not."""
        if key in self._known:
            return self._known[key]
        work = self._under_way.get(key)
        if work is None:
            work = self._under_way[key] = _Work(asyncio.ensure_future(find()))
        work.waiting += 1
        try:
            self._known[key] = await asyncio.shield(work.task)
        finally:
            work.waiting -= 1
            if not work.waiting:
                if self._under_way.get(key) is work:
                    del self._under_way[key]
                await ended([work.task])
        return self._known[key]
