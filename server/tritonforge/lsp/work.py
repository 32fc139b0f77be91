"""What jobs do with a kernel: profile it, optimise it, record its launches, compile it in the background."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from tritonforge.domain.errors import NoLaunchKnown, TargetUnreachable
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.launch import Call
from tritonforge.domain.results import OptimizeResult, ProfileResult
from tritonforge.jobs.session import Session
from tritonforge.lsp import summary
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import KernelFacts, Offer, launch_facts, of_original
from tritonforge.lsp.jobs import Job
from tritonforge.lsp.model import searching
from tritonforge.lsp.portable import form_of
from tritonforge.lsp.sessions import key_of
from tritonforge.report import wording

if TYPE_CHECKING:
    from tritonforge.diagnosis.assessment import Assessed
    from tritonforge.lsp.state import State
    from tritonforge.workload.gather import FileWorkload
    from tritonforge.workload.index import Way
    from tritonforge.workload.subject import Subject

# The engine is imported where it is used: a server that only analyses starts in half the time. What takes a third of a
# second is loaded beside the event loop.

BUDGET_S = 120.0


async def profile(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, *, allow_run: bool, way: Way | None = None
) -> str:
    """Profile a kernel, and show what came out; `way` is what the user chose to run first."""
    await asyncio.to_thread(import_module, "tritonforge.diagnosis.profile_kernel")
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.diagnosis.inspect_file import wanted
    from tritonforge.diagnosis.profile_kernel import profile as profile_kernel
    from tritonforge.profiling.ceilings import ceilings_of

    async with _target(state, snapshot, job) as session:
        workload = await state.workload(snapshot, job, allow_run=allow_run)
        found = await _calls(workload, kernel, session, way)
        job.report(f"profiling {kernel.name}")
        judge = yardstick(session, ceilings=await ceilings_of(session, workload.store))
        subject = workload.subject(kernel, found)

        def learn(result: ProfileResult, assessed: tuple[Assessed, ...]) -> KernelFacts:
            findings = {(f.code, f.range): f for profile in result.profiles for f in profile.findings}
            facts = KernelFacts(
                kernel,
                snapshot.text,
                wording.target(session.info),
                launch_facts(assessed, result),
                wanted(tuple(findings.values()), snapshot.file, workload.settings),
            )
            state.learn(snapshot.uri, facts)
            return facts

        def timed(result: ProfileResult, assessed: tuple[Assessed, ...]) -> None:
            learn(result, assessed)
            job.report(f"reading the hardware counters of {kernel.name}")

        facts = learn(
            *await profile_kernel(subject, session, judge, counters="auto", store=workload.store, on_timed=timed)
        )
    return summary.one_line(facts, fresh=True)


async def optimize(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, *, allow_run: bool, way: Way | None = None
) -> str:
    """Search for a faster version of a kernel, and offer it; `way` is what the user chose to run first."""
    await asyncio.to_thread(import_module, "tritonforge.optimize")
    from tritonforge.diagnosis.assessment import yardstick
    from tritonforge.optimize import Step
    from tritonforge.optimize import optimize as search
    from tritonforge.profiling.ceilings import ceilings_of

    def show(step: Step) -> None:
        count = f" {step.done}/{step.total}" if step.total else ""
        best = f" · best so far {wording.factor(step.best_speedup)}" if step.best_speedup else ""
        asked = f" · model: {step.thinking}" if step.thinking else ""
        job.report(f"{step.stage}{count} · {step.detail}{best}{asked}", step.done, step.total)

    async with searching(state, snapshot, kernel, job) as asking:
        async with _target(state, snapshot, job) as session:
            workload = await state.workload(snapshot, job, allow_run=allow_run)
            found = await _calls(workload, kernel, session, way)
            judge = yardstick(session, ceilings=await ceilings_of(session, workload.store))
            subject = workload.subject(kernel, found)
            result = await search(subject, session, judge, asking.engines, budget_s=BUDGET_S, on_step=show)
        result = await asking.finished(result, snapshot.text)
    await asyncio.to_thread(workload.store.put_tuning, result)
    target = wording.target(session.info)
    state.facts.keep_search(snapshot.uri, result)
    state.learn(snapshot.uri, of_original(result, snapshot.text, target))
    state.facts.explain(snapshot.uri, kernel, asking.words)
    if result.best is None:
        outcome = _nothing(result)
        if not job.cancelled:
            state.client.say(f"{kernel.name}: {outcome}")
        return outcome
    first = min(result.launches, key=lambda launch: launch.rank, default=None)
    portable = await asyncio.to_thread(form_of, kernel, snapshot.text, result.best, first)
    offer = Offer(job.id, kernel, snapshot.text, result.best, portable)
    state.offer(snapshot.uri, offer)
    return summary.verified(result.best)


async def record(state: State, snapshot: Snapshot, kernel: Kernel, job: Job, way: Way | None = None) -> str:
    """Run `way`, else what the file offers, to see a kernel's launches; whoever starts this job has decided so."""
    async with _target(state, snapshot, job) as session:
        workload = await state.workload(snapshot, job, allow_run=way is None)
        calls = await _calls(workload, kernel, session, way)
    launches = sum(len(call.launches) for call in calls)
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
    from tritonforge.diagnosis.assessment import assess, yardstick
    from tritonforge.diagnosis.diagnose import diagnose
    from tritonforge.diagnosis.inspect_file import wanted

    async with _target(state, snapshot, job) as session:
        workload = await state.workload(snapshot, job, allow_run=False)
        for kernel in kernels:
            found = await asyncio.to_thread(workload.known, kernel, stale=True)
            if found is None:
                continue
            subject = workload.subject(kernel, found.calls)
            judge = yardstick(session)
            assessed = await assess(session, subject.program(), kernel, found.calls, judge, pinned=subject.pinned)
            findings = wanted(diagnose(kernel, [one.case for one in assessed]), snapshot.file, workload.settings)
            target = wording.target(session.info)
            state.learn(snapshot.uri, KernelFacts(kernel, snapshot.text, target, launch_facts(assessed), findings))
    return ""


async def listings(
    state: State, snapshot: Snapshot, facts: KernelFacts, launches: tuple[str, ...], job: Job
) -> Mapping[str, tuple[Listing, ...]]:
    """Read what the compiler made of a kernel as its facts have it, by launch. Nothing is run to find its calls."""
    from tritonforge.diagnosis.listings import listings_of

    async with _target(state, snapshot, job) as session:
        workload = await state.workload(snapshot, job, allow_run=False)
        found = await asyncio.to_thread(workload.known, facts.kernel, stale=True)
        if found is None:
            return {}
        # The code may have moved since: lines must be those of the text that the facts speak of.
        subject = dataclasses.replace(workload.subject(facts.kernel, found.calls), text=facts.text)
        return await listings_of(subject, session, launches)


@asynccontextmanager
async def _target(state: State, snapshot: Snapshot, job: Job) -> AsyncIterator[Session]:
    """Wait for the target's turn, and open it where it is not open yet."""
    settings = state.settings(snapshot.root)
    name, python = state.options.target, state.options.interpreter
    async with state.jobs.turn(key_of(settings, name, python), job):
        job.report("starting the worker")
        session = await state.sessions.get(settings, name, python)
        if session.worker.ended:  # killed, or lost in a job that made the best of it
            state.sessions.drop(session)
            session = await state.sessions.get(settings, name, python)
        try:
            yield session
        except TargetUnreachable:
            state.sessions.drop(session)
            raise


@asynccontextmanager
async def subject(
    state: State, snapshot: Snapshot, kernel: Kernel, job: Job, *, allow_run: bool, way: Way | None = None
) -> AsyncIterator[tuple[Session, Subject]]:
    """Have the target, and a kernel with its calls; `allow_run` and `way` say what may be run to find them."""
    async with _target(state, snapshot, job) as session:
        workload = await state.workload(snapshot, job, allow_run=allow_run)
        yield session, workload.subject(kernel, await _calls(workload, kernel, session, way))


async def _calls(workload: FileWorkload, kernel: Kernel, session: Session, way: Way | None) -> tuple[Call, ...]:
    if way is not None:
        found = await workload.run(kernel, way, session)
        if found is None:
            raise NoLaunchKnown(f"Running {way.name} showed no launch of {kernel.name}{workload.failure_of(way)}.")
        return found.calls
    return (await workload.subject_of(kernel, session)).calls


def _nothing(result: OptimizeResult) -> str:
    at_roofline = bool(result.bottlenecks) and result.bottlenecks[0].kind == "at-roofline"
    if at_roofline:
        return "nothing to gain: it runs at its roofline"
    note = f" ({result.notes[0]})" if result.notes and not result.trials else ""
    return f"no verified rewrite is faster than the original; stopped: {result.stopped_because}{note}"
