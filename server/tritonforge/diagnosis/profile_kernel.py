"""One kernel's profile: measured where there is a GPU, predicted and marked so where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tritonforge.diagnosis.assessment import Assessed, Yardstick, assess, ranked, require_launches, with_time
from tritonforge.diagnosis.counting import WithCounters, require_gpu, with_counters
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.diagnosis.heat import heat_of
from tritonforge.diagnosis.plausible import refused
from tritonforge.diagnosis.seen import remember
from tritonforge.domain.counters import CounterChoice
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.profile import Profile, TimeDistribution
from tritonforge.domain.results import ProfileResult
from tritonforge.jobs.session import Session
from tritonforge.prediction import disagreement
from tritonforge.profiling.measuring import PROFILE_SAMPLES, measure
from tritonforge.profiling.statistics import summarise
from tritonforge.store import Store
from tritonforge.workload.launches import to_launch
from tritonforge.workload.subject import Subject

NOT_YET_COUNTED = "hardware counters and stall reasons: not counted yet"
NO_GPU = "times: this target has no GPU, so they are predicted"


async def profile(
    subject: Subject,
    session: Session,
    judge: Yardstick | None,
    *,
    budget_s: float = 20.0,
    counters: CounterChoice = "none",
    store: Store | None = None,
    on_timed: Callable[[ProfileResult, tuple[Assessed, ...]], object] | None = None,
) -> tuple[ProfileResult, tuple[Assessed, ...]]:
    """Profile every launch of the subject's kernel.

    Args:
        subject: the kernel and the calls to profile it on.
        session: of the target.
        judge: the GPU to judge by.
        budget_s: seconds for measuring times.
        counters: where counters should come from; the best source takes ten seconds more.
        store: remembers which source the target allows, and what was found out.
        on_timed: given what is known before counting begins, which takes ten times as long as timing.

    Returns:
        The result, and the assessed launches it was made from.

    Raises:
        JobError: when a call cannot be repeated, compiled or timed.
        NoLaunchKnown: when no call launches the kernel.
        CountersRefused: when the source of counters that was named does not work on the target.
    """
    require_gpu(session, counters)
    kernel = subject.kernel
    assessed = await assess(session, subject.program(), kernel, subject.calls, judge, pinned=subject.pinned)
    require_launches(assessed, kernel, subject.calls)
    missing: list[str] = []
    times = {}
    notes: tuple[str, ...] = ()
    if session.measures:
        (samples,), notes = await measure(
            session.worker,
            [subject.program()],
            subject.calls,
            kernel=kernel.name,
            identify=lambda recorded: to_launch(kernel, recorded).id,
            samples=PROFILE_SAMPLES,
            budget_s=budget_s,
        )
        missing += [f"times: {samples.error}"] if samples.error else []
        times = {launch: summarise(row) for launch, row in samples.by_launch.items()}
        by_id = {one.launch.id: one for one in assessed}
        refusals = {i: why for i, time in times.items() if i in by_id and (why := refused(by_id[i], time, judge))}
        times = {launch: time for launch, time in times.items() if launch not in refusals}
        missing += [f"times: {why}" for why in dict.fromkeys(refusals.values())]
        timed = [with_time(one, times[one.launch.id], judge) if one.launch.id in times else one for one in assessed]
        assessed = ranked(timed, kernel, subject.pinned)
    else:
        missing.append(NO_GPU)

    def result(counted: WithCounters) -> ProfileResult:
        profiles = tuple(
            Profile(
                kernel=kernel,
                target=session.info,
                launch=one.launch,
                time_us=times.get(one.launch.id),
                roofline=one.roofline,
                bottleneck=one.bottleneck
                or Bottleneck("unknown", 0.0, "compiled", one.compilation.error or "It does not compile."),
                findings=diagnose(kernel, [one.case]),
                stalls=heat.stalls,
                lines=heat.lines,
                lines_provenance=heat.provenance,
                counters_source=counted.source if one.case.counters is not None else "none",
                missing=(*missing, *counted.missing),
                notes=(*notes, *_doubts(one, times.get(one.launch.id)), *counted.notes),
            )
            for one in counted.assessed
            for heat in (heat_of(one.case),)
        )
        return ProfileResult(profiles, {one.launch.id: one.prediction for one in counted.assessed if one.prediction})

    if on_timed is not None and counters != "none" and session.measures:
        on_timed(result(WithCounters(assessed, missing=(NOT_YET_COUNTED,))), assessed)
    counted = await with_counters(subject, session, assessed, counters, store)
    profiled = result(counted)
    if store is not None:
        await asyncio.to_thread(remember, store, profiled)
    return profiled, counted.assessed


def _doubts(assessed: Assessed, time: TimeDistribution | None) -> tuple[str, ...]:
    doubt = disagreement(assessed.prediction, time.median) if time is not None else None
    return (doubt,) if doubt is not None else ()
