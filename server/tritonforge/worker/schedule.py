"""Which waiting job may start now. Pure: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tritonforge.domain.frames import Frame
from tritonforge.domain.messages import JOBS, Failure, Lane, Request


@dataclass(frozen=True)
class Job:
    """A request that was accepted: bounds in seconds and bytes; lower `priority` first, then lower `order`."""

    id: int
    name: str
    lane: Lane
    seconds: float
    memory_bytes: int
    request: Frame
    priority: int = 0
    order: int = 0


def read_job(frame: Frame, order: int) -> Job | Failure:
    """Return the job that a request frame describes, or what is wrong with it; the request itself stays unread."""
    match frame.header:
        case {"id": int(number), "job": str(name), "seconds": int() | float() as seconds, "memory_bytes": int(memory)}:
            kind = cast("type[Request[Any]] | None", JOBS.get(name))
        case _:
            return Failure("protocol", "A request lacks its id, job or limits.")
    if kind is None:
        return Failure("protocol", f"The worker does not know {name} jobs.")
    priority = frame.header.get("priority", 0)
    return Job(number, name, kind.lane, seconds, memory, frame, priority if isinstance(priority, int) else 0, order)


def in_turn(jobs: Sequence[Job]) -> list[Job]:
    """Sort jobs into the order in which they should start."""
    return sorted(jobs, key=lambda job: (job.priority, job.order))


def startable(
    waiting: Sequence[Job], running: Mapping[Lane, int], lanes: int, ready: Collection[Lane]
) -> tuple[Job, ...]:
    """Return the jobs of `waiting` (in turn) that may start beside those that run.

    A device job runs alone, since whatever computes on the host disturbs a measurement: it waits for everything that
    runs, and whatever stands behind it waits for it (else a steady stream of compilations would hold it up for ever).
    `lanes` is the number of lanes of each other kind, `ready` the kinds whose zygote is there.
    """
    if running.get("device"):
        return ()
    free = {lane: lanes - running.get(lane, 0) for lane in ready}
    busy = any(running.values())
    chosen: list[Job] = []
    for job in waiting:
        if job.lane == "device":
            if not busy and not chosen and job.lane in ready:
                chosen.append(job)
            break
        if free.get(job.lane, 0) > 0:
            free[job.lane] -= 1
            chosen.append(job)
    return tuple(chosen)
