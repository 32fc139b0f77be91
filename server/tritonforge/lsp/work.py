"""What jobs do with a kernel: profile it, optimise it, record its launches, compile it in the background.

The work itself is done by a backend, a process of its own, so that requests are answered as fast as ever meanwhile.
What stays here is whose turn it is, and what an editor sees of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tritonforge.backend import tasks
from tritonforge.backend.facts import KernelFacts
from tritonforge.domain.candidate import Verdict
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.results import OptimizeResult
from tritonforge.lsp import summary
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.jobs import Job
from tritonforge.lsp.model import may_send
from tritonforge.lsp.sessions import key_of
from tritonforge.report import wording

if TYPE_CHECKING:
    from tritonforge.lsp.state import State
    from tritonforge.workload.index import Way

R = TypeVar("R")
BUDGET_S = 180.0


async def profile(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, *, allow_run: bool, way: Way | None = None
) -> str:
    """Profile a kernel, and show what came out; `way` is what the user chose to run first."""
    task = tasks.Profile(state.source(snapshot), kernel, allow_run, way)
    facts = await _do(state, snapshot, job, task)
    _learn(state, snapshot, facts)
    return summary.one_line(facts, fresh=True)


async def optimize(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, *, allow_run: bool, way: Way | None = None
) -> str:
    """Search for a faster version of a kernel, and offer it; `way` is what the user chose to run first."""
    model = await may_send(state, snapshot, job)
    task = tasks.Optimize(state.source(snapshot), kernel, allow_run, way, BUDGET_S, model)
    found = await _do(state, snapshot, job, task)
    result = found.result
    state.facts.keep_search(snapshot.uri, result)
    _learn(state, snapshot, found.facts)
    state.facts.explain(snapshot.uri, kernel, found.words)
    if result.best is None:
        outcome = _nothing(result)
        if not job.cancelled:
            state.client.say(f"{kernel.name}: {outcome}")
        return outcome
    state.offer(
        snapshot.uri,
        Offer(job.id, kernel, snapshot.text, result.best, found.portable, found.applied, found.others),
    )
    return summary.verified(result.best)


async def record(state: State, snapshot: Snapshot, kernel: Kernel, job: Job, way: Way | None = None) -> str:
    """Run `way`, else what the file offers, to see a kernel's launches; whoever starts this job has decided so."""
    launches = await _do(state, snapshot, job, tasks.Record(state.source(snapshot), kernel, way))
    state.look_again(snapshot.uri)
    return f"{wording.plural(launches, 'launch')} of {kernel.name} recorded"


async def pin(state: State, snapshot: Snapshot, kernel: Kernel, wanted: str | None) -> str:
    """Remember which launch of a kernel matters most (none: by time and count), and show it first."""
    from tritonforge.workload.launches import distinct, problem_id

    known = state.facts.of(snapshot.uri, kernel.name)
    if known is None:
        return ""
    timed = [dataclasses.replace(one.launch, time_us=one.time_us) for one in known.launches]
    chosen = next((launch for launch in timed if launch.id == wanted), None)
    pinned = (chosen.id, problem_id(kernel, chosen.problem)) if chosen is not None else ()
    store = await asyncio.to_thread(state.workspaces.of(snapshot.root).store)
    await asyncio.to_thread(store.pin, kernel.file, kernel.name, pinned)
    ranks = {launch.id: launch.rank for launch in distinct(timed, pinned=pinned)}
    launches = tuple(
        dataclasses.replace(one, launch=dataclasses.replace(one.launch, rank=ranks[one.launch.id]))
        for one in known.launches
    )
    state.learn(snapshot.uri, dataclasses.replace(known, launches=launches))
    return "Pinned" if chosen is not None else "Ranked by time and count"


async def inspect(state: State, snapshot: Snapshot, kernels: tuple[Kernel, ...], job: Job) -> str:
    """Compile the known launches of kernels, in the background. Nothing of the user's is run to find any."""
    await _do(state, snapshot, job, tasks.Inspect(state.source(snapshot), kernels))
    return ""


async def listings(
    state: State, snapshot: Snapshot, facts: KernelFacts, launches: tuple[str, ...], job: Job
) -> Mapping[str, tuple[Listing, ...]]:
    """Read what the compiler made of a kernel as its facts have it, by launch. Nothing is run to find its calls."""
    task = tasks.ReadListings(state.source(snapshot), facts.kernel, facts.text, launches)
    return await _do(state, snapshot, job, task)


async def judge(
    state: State,
    snapshot: Snapshot,
    kernel: Kernel,
    version: tasks.Version,
    job: Job,
    *,
    allow_run: bool,
    way: Way | None = None,
) -> Verdict:
    """Put another version of a kernel through the gate, as `tritonforge verify` does."""
    return await _do(state, snapshot, job, tasks.Judge(state.source(snapshot), kernel, version, allow_run, way))


async def _do(state: State, snapshot: Snapshot, job: Job, task: tasks.Task[R]) -> R:
    """Wait for the target's turn, and have a task done by what works on it."""
    settings = state.settings(snapshot.root)
    name, python = state.options.target, state.options.interpreter
    async with state.jobs.turn(key_of(settings, name, python), job):
        job.report("starting the worker")
        backend = await state.sessions.get(settings, name, python)
        return await backend.run(task, _heard(state, snapshot, job))


def _heard(state: State, snapshot: Snapshot, job: Job) -> Callable[[tasks.Event], None]:
    def take(event: tasks.Event) -> None:
        match event:
            case tasks.Reported(message, done, total):
                job.report(message, done, total)
            case tasks.Said(sentence, warning):
                (state.client.warn if warning else state.client.say)(sentence)
            case tasks.Learned(facts):
                _learn(state, snapshot, facts)

    return take


def _learn(state: State, snapshot: Snapshot, facts: KernelFacts) -> None:
    # The text came back as a copy; the one that is here already is as long as the file.
    state.learn(snapshot.uri, dataclasses.replace(facts, text=snapshot.text))


def _nothing(result: OptimizeResult) -> str:
    at_roofline = bool(result.bottlenecks) and result.bottlenecks[0].kind == "at-roofline"
    if at_roofline:
        return "nothing to gain: it runs at its roofline"
    note = f" ({result.notes[0]})" if result.notes and not result.trials else ""
    return f"no verified rewrite is faster than the original; stopped: {result.stopped_because}{note}"
