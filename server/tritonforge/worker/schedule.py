"""Which waiting job may start now. Pure: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tritonforge.domain.frames import Frame
from tritonforge.domain.messages import JOBS, Failure, Lane, Request

_MOST_GPUS = 1024


@dataclass(frozen=True)
class Job:
    """A request that was accepted: bounds in seconds and bytes; lower `priority` first, then lower `order`.

    `gpu` and `gpus`: the GPU that a device job runs on, and how many of the machine's share the client's work; None and
    1 where it knows of one alone. `fresh`: it is done by a process that has done nothing before. `beside`: it may be
    done while others compile, on cores of its own. `measures`: what others compute on the host disturbs it.
    """

    id: int
    name: str
    lane: Lane
    seconds: float
    memory_bytes: int
    request: Frame
    priority: int = 0
    order: int = 0
    gpu: int | None = None
    gpus: int = 1
    fresh: bool = False
    beside: bool = False
    measures: bool = True


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
    gpu, gpus = _gpu(frame.header.get("gpu")) if kind.lane == "device" else (None, 1)
    priority = priority if isinstance(priority, int) else 0
    fresh, beside = (bool(getattr(kind, name, False)) for name in ("fresh", "beside"))
    measures = bool(getattr(kind, "measures", True))
    return Job(number, name, kind.lane, seconds, memory, frame, priority, order, gpu, gpus, fresh, beside, measures)


def _gpu(said: object) -> tuple[int | None, int]:
    match said:
        case [int(number), int(count)] if 0 <= number < count <= _MOST_GPUS:
            return number, count
        case _:
            return None, 1


def in_turn(jobs: Sequence[Job]) -> list[Job]:
    """Sort jobs into the order in which they should start."""
    return sorted(jobs, key=lambda job: (job.priority, job.order))


def startable(
    waiting: Sequence[Job],
    running: Mapping[Lane, int],
    lanes: int,
    ready: Collection[Lane],
    *,
    busy: Collection[int | None] = (),
    comparing: Collection[int | None] = (),
    apart: bool = False,
) -> tuple[Job, ...]:
    """Return the jobs of `waiting` (in turn) that may start beside those that run.

    A GPU does one job at a time: those of `busy` do one now. Whatever computes on the host disturbs a measurement, too,
    so a device job waits for everything that runs there, and whatever stands behind it waits for it (else a steady
    stream of compilations would hold it up for ever) — unless `apart`: both have cores of their own. One that measures
    nothing waits for its GPU and for measurements alone, and holds nothing up; `comparing` are the GPUs of `busy` that
    do such a job. `lanes` is the number of lanes of each other kind, `ready` the kinds whose zygote is there.
    """
    taken = set(busy) or ({None} if running.get("device") else set())
    measuring = taken - set(comparing)
    free = {lane: lanes - running.get(lane, 0) for lane in ready}
    host = sum(count for lane, count in running.items() if lane != "device") + len(taken - measuring)
    chosen: list[Job] = []
    for job in waiting:
        if job.lane == "device":
            may = job.lane in ready and job.gpu not in taken
            if not job.measures:
                if may and (apart or not measuring):
                    chosen.append(job)
                    taken.add(job.gpu)
                    host += 1
            elif may and (apart or not host):
                chosen.append(job)
                taken.add(job.gpu)
                measuring.add(job.gpu)
            elif not apart:
                break
        elif measuring and not apart:
            break
        elif free.get(job.lane, 0) > 0:
            free[job.lane] -= 1
            host += 1
            chosen.append(job)
    return tuple(chosen)
