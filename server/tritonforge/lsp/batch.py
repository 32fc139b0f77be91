"""One job about several kernels, profiled or optimised one after the other; nothing is asked on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable, TritonForgeError
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp import work
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.jobs import Job
from tritonforge.lsp.state import State
from tritonforge.report import wording
from tritonforge.workload.index import Way

Subject = tuple[str, str]
"""A document's URI and a kernel's qualified name."""
Work = Callable[..., Awaitable[str]]
_MOST_NAMED = 3


async def run(state: State, job: Job, subjects: Sequence[Subject], do: Work, *, allow_run: bool) -> str:
    """Let `do` (`work.profile` or `work.optimize`) treat each kernel; returns the outcome in one line.

    With `allow_run`, what a kernel's file offers, else a test or program that gets to it, is run to record launches.
    The first kernel that finds the target unreachable ends it all: the others would fare no better. A search that is
    cancelled ends with the best so far; no other kernel is begun after it.
    """
    done = faster = left = 0
    unknown: list[str] = []
    failed: list[str] = []
    for number, subject in enumerate(subjects, 1):
        name = subject[1]
        if job.cancelled:
            left = len(subjects) - number + 1
            break
        state.jobs.turn_to(job, subject, f"{number}/{len(subjects)} · {name} · ")
        snapshot = await state.read(subject[0])
        kernel = snapshot.kernel(name) if snapshot is not None else None
        if snapshot is None or kernel is None:
            failed.append(f"{name}: it is not there any more")
            continue
        try:
            own, way = await _allowed(state, snapshot, kernel) if allow_run else (False, None)
            await do(state, snapshot, kernel, job, allow_run=own, way=way)
        except NoLaunchKnown:
            unknown.append(name)
        except TargetUnreachable:
            raise
        except TritonForgeError as error:
            failed.append(f"{name}: {error}")
        else:
            done += 1
            offer = state.facts.offered(*subject)
            faster += offer is not None and offer.id == job.id
    return _outcome(done, faster if do is work.optimize else None, unknown, failed, left)


async def _allowed(state: State, snapshot: Snapshot, kernel: Kernel) -> tuple[bool, Way | None]:
    """Return whether the kernel's own file is run, or what else is, where its launches are not known."""
    workload = await state.workload(snapshot)
    if snapshot.analysis.entries or await asyncio.to_thread(workload.known, kernel) is not None:
        return True, None
    ways = await state.ways(snapshot, kernel)
    return False, next((way for way in ways if way.alone), None)


def _outcome(done: int, faster: int | None, unknown: Sequence[str], failed: Sequence[str], left: int) -> str:
    what = "profiled" if faster is None else "searched"
    parts = [f"{wording.plural(done, 'kernel')} {what}"]
    if faster is not None:
        parts[0] += f", {faster} with a verified faster version"
    if unknown:
        parts.append(f"no launch is known of {_names(unknown)}")
    if failed:
        parts.append(f"not done: {'; '.join(failed[:_MOST_NAMED])}{_more(failed)}")
    if left:
        parts.append(f"cancelled before {wording.plural(left, 'more kernel')}")
    return ". ".join(part[:1].upper() + part[1:] for part in parts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + _more(names)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
