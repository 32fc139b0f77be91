"""What a backend does with a kernel: profile, optimise or compile it, record its launches, judge a version of it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tritonforge.backend.asking import engines
from tritonforge.backend.facts import KernelFacts, launch_facts, of_original
from tritonforge.backend.judging import form_of, judge, state_after
from tritonforge.backend.tasks import (
    Inspect,
    Judge,
    Learned,
    Optimize,
    Profile,
    ReadListings,
    Record,
    Reported,
    Said,
    Searched,
    Source,
    Tell,
)
from tritonforge.diagnosis.assessment import Assessed, assess, yardstick
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.diagnosis.inspect_file import wanted
from tritonforge.diagnosis.listings import listings_of
from tritonforge.diagnosis.profile_kernel import profile as profile_kernel
from tritonforge.domain.candidate import Verdict
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.kernel import Kernel, RunnableEntry
from tritonforge.domain.kernel_report import Listing
from tritonforge.domain.launch import Call
from tritonforge.domain.results import ProfileResult
from tritonforge.jobs.session import Session
from tritonforge.optimize import Step
from tritonforge.optimize import optimize as search
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.report import wording
from tritonforge.store import Store, open_store
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.index import Way, WorkspaceIndex

_stores: dict[Path, Store] = {}
_indices: dict[Path, WorkspaceIndex] = {}
_opening = threading.Lock()  # tasks open them in threads, beside each other


async def do(task: Any, session: Session, tell: Tell) -> Any:
    """Do a task on an open target, and return what it ends with; see `tasks`."""
    return await _WORK[type(task)](task, session, tell)


async def _profile(task: Profile, session: Session, tell: Tell) -> KernelFacts:
    kernel, workload = task.kernel, await _workload(task.source, tell, allow_run=task.allow_run)
    found = await _calls(workload, kernel, session, task.way)
    tell(Reported(f"profiling {kernel.name}"))
    measure = yardstick(session, ceilings=await ceilings_of(session, workload.store))
    subject = workload.subject(kernel, found)

    def facts(result: ProfileResult, assessed: tuple[Assessed, ...]) -> KernelFacts:
        findings = {(f.code, f.range): f for profile in result.profiles for f in profile.findings}
        return KernelFacts(
            kernel,
            task.source.text,
            wording.target(session.info),
            launch_facts(assessed, result),
            wanted(tuple(findings.values()), kernel.file, workload.settings),
        )

    def timed(result: ProfileResult, assessed: tuple[Assessed, ...]) -> None:
        tell(Learned(facts(result, assessed)))
        tell(Reported(f"reading the hardware counters of {kernel.name}"))

    return facts(
        *await profile_kernel(subject, session, measure, counters="auto", store=workload.store, on_timed=timed)
    )


async def _optimize(task: Optimize, session: Session, tell: Tell) -> Searched:
    kernel, text = task.kernel, task.source.text

    def show(step: Step) -> None:
        count = f" {step.done}/{step.total}" if step.total else ""
        best = f" · best so far {wording.factor(step.best_speedup)}" if step.best_speedup else ""
        asked = f" · model: {step.thinking}" if step.thinking else ""
        tell(Reported(f"{step.stage}{count} · {step.detail}{best}{asked}", step.done, step.total))

    async with engines(task, partial(_store, task.source.settings.root), tell) as asking:
        workload = await _workload(task.source, tell, allow_run=task.allow_run)
        found = await _calls(workload, kernel, session, task.way)
        measure = yardstick(session, ceilings=await ceilings_of(session, workload.store))
        subject = await workload.with_users(workload.subject(kernel, found))
        result = await search(
            subject, session, measure, asking.engines, budget_s=task.budget_s, on_step=show, store=workload.store
        )
        result = await asking.finished(result, text)
    await asyncio.to_thread(workload.store.put_tuning, result)
    first = min(result.launches, key=lambda launch: launch.rank, default=None)
    facts = of_original(result, text, wording.target(session.info))
    if result.best is None:
        return Searched(result, facts, asking.words)
    portable = await asyncio.to_thread(form_of, kernel, text, result.best, first)
    applied = await asyncio.to_thread(state_after, kernel, text, result.best)
    changed = {edit.file for edit in result.best.trial.candidate.edits}
    others = tuple((file, content) for file, content in subject.others if file in changed)
    return Searched(result, facts, asking.words, portable, applied, others)


async def _record(task: Record, session: Session, tell: Tell) -> int:
    workload = await _workload(task.source, tell, allow_run=task.way is None)
    calls = await _calls(workload, task.kernel, session, task.way)
    return sum(len(call.launches) for call in calls)


async def _inspect(task: Inspect, session: Session, tell: Tell) -> None:
    workload = await _workload(task.source, tell)
    for kernel in task.kernels:
        found = await asyncio.to_thread(workload.known, kernel, stale=True)
        if found is None:
            continue
        subject = workload.subject(kernel, found.calls)
        measure = yardstick(session)
        assessed = await assess(session, subject.program(), kernel, found.calls, measure, pinned=subject.pinned)
        findings = wanted(diagnose(kernel, [one.case for one in assessed]), kernel.file, workload.settings)
        target = wording.target(session.info)
        tell(Learned(KernelFacts(kernel, task.source.text, target, launch_facts(assessed), findings)))


async def _listings(task: ReadListings, session: Session, tell: Tell) -> Mapping[str, tuple[Listing, ...]]:
    workload = await _workload(task.source, tell)
    found = await asyncio.to_thread(workload.known, task.kernel, stale=True)
    if found is None:
        return {}
    # The code may have moved since: lines must be those of the text that the kernel was read from.
    subject = dataclasses.replace(workload.subject(task.kernel, found.calls), text=task.text)
    return await listings_of(subject, session, task.launches)


async def _judge(task: Judge, session: Session, tell: Tell) -> Verdict:
    workload = await _workload(task.source, tell, allow_run=task.allow_run)
    calls = await _calls(workload, task.kernel, session, task.way)
    tell(Reported(f"comparing {task.kernel.name} with {task.version.called}"))
    return await judge(session, workload.subject(task.kernel, calls), task.version)


_WORK: Mapping[type, Callable[[Any, Session, Tell], Any]] = {
    Profile: _profile,
    Optimize: _optimize,
    Record: _record,
    Inspect: _inspect,
    ReadListings: _listings,
    Judge: _judge,
}


async def _workload(source: Source, tell: Tell, *, allow_run: bool = False) -> FileWorkload:
    """Return what finds the calls of a document's kernels; user code is run with `allow_run` only."""
    root = source.settings.root
    store = await asyncio.to_thread(_store, root)
    return FileWorkload(
        root=str(root),
        analysis=source.analysis,
        text=source.text,
        settings=source.settings,
        store=store,
        allow_run=allow_run,
        on_entry=lambda file, entry: tell(_recording(file, entry)),
        texts=source.texts,
        index=_indices.setdefault(root, WorkspaceIndex(root, store)),
        on_stale=lambda kernel, why: tell(
            Said(f"The launches of {kernel.name} were recorded earlier, and {why}."),
        ),
    )


def _store(root: Path) -> Store:
    with _opening:
        if root not in _stores:
            _stores[root] = open_store(root)
        return _stores[root]


def close_stores() -> None:
    """Let go of what tasks have kept open."""
    with _opening:
        while _stores:
            _stores.popitem()[1].close()


def _recording(file: str, entry: RunnableEntry) -> Reported:
    """Say that user code runs, and which."""
    what = {"main": "its main block", "module": "importing it"}.get(entry.kind, entry.name)
    return Reported(f"recording the launches of {file.rpartition('/')[2]} ({what})")


async def _calls(workload: FileWorkload, kernel: Kernel, session: Session, way: Way | None) -> tuple[Call, ...]:
    if way is not None:
        found = await workload.run(kernel, way, session)
        if found is None:
            raise NoLaunchKnown(f"Running {way.name} showed no launch of {kernel.name}{workload.failure_of(way)}.")
        return found.calls
    return (await workload.subject_of(kernel, session)).calls
