"""Kernel after kernel on one GPU, or side by side on the GPUs of a target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs.session import Session
from tritonforge.jobs.spreading import sessions_of, spread

T = TypeVar("T")


async def search_all(
    pieces: Sequence[T], session: Session, attempt: Callable[[T, Session], Awaitable[OptimizeResult | None]]
) -> list[tuple[T, OptimizeResult]]:
    """Have `attempt` search for each piece, and return those that gave a result, up to one that was interrupted."""
    if len(sessions_of(session)) > 1:
        results = await spread(pieces, session, attempt)
        return [(piece, result) for piece, result in zip(pieces, results, strict=True) if result is not None]
    found: list[tuple[T, OptimizeResult]] = []
    for piece in pieces:
        result = await attempt(piece, session)
        if result is not None:
            found.append((piece, result))
            if result.stopped_because == "interrupted":
                break
    return found
