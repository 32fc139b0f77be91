"""Several jobs at once, none of which is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(wanted: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all, in their order. The first error ends the others and is raised, as from a loop."""
    tasks = [asyncio.ensure_future(one) for one in wanted]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await ended(tasks)


async def ended(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel what is still under way and wait for its end; what it ends with is not raised."""
    left = list(tasks)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
