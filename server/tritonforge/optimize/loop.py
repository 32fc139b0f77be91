"""The loop: assess, propose, compile, rank, verify, again from the best, until nothing improves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

from tritonforge.diagnosis.assessment import Yardstick, assess, ranked, require_launches
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.errors import UsageError
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs.session import Session
from tritonforge.optimize.search import Attempt, Search, Step
from tritonforge.optimize.steps import (
    compile_all,
    confirm,
    gate_of,
    measure_promising,
    predict_gain,
    propose,
    sanitise,
    time_side_by_side,
    verify,
)
from tritonforge.optimize.thinking import Thinking, promises
from tritonforge.profiling.measuring import SEARCH_SAMPLES
from tritonforge.rewrite import Engine, Thinker
from tritonforge.verify import Gate
from tritonforge.workload.subject import Subject

AT_ROOFLINE = 0.95
MAX_ROUNDS = 4
SLOWER_TOLERATED = 0.03


async def optimize(
    subject: Subject,
    session: Session,
    judge: Yardstick | None,
    engines: Sequence[Engine | Thinker],
    *,
    budget_s: float = 120.0,
    allow_slower: float = SLOWER_TOLERATED,
    on_step: Callable[[Step], None] = lambda _: None,
) -> OptimizeResult:
    """Return the fastest verified version of the subject's kernel, or say why there is none.

    Args:
        subject: the kernel, its file and the calls that it is judged on.
        session: where it is compiled, verified and, with a GPU, measured.
        judge: the GPU that predictions and rooflines speak of.
        engines: what proposes rewrites, in order; those that think do so beside the others.
        budget_s: seconds after which no new work is begun.
        allow_slower: how much slower (a fraction) any one launch may become.
        on_step: told of every step, for progress.

    A cancellation ends the search and returns the best so far, with `stopped_because` "interrupted".

    Raises:
        JobError: when a call of the original cannot be repeated.
        UsageError: when the original does not compile.
        NoLaunchKnown: when no call launches the kernel.
    """
    quick = [engine for engine in engines if not isinstance(engine, Thinker)]
    search = Search(subject, session, judge, quick, budget_s, allow_slower, on_step)
    search.thinkers = [engine for engine in engines if isinstance(engine, Thinker)]
    try:
        reason = await _run(search)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if search.baseline is None or task is None:
            raise
        task.uncancel()
        reason = "interrupted"
    return search.result(reason)


async def _run(search: Search) -> str:
    problem = await assess_original(search)
    if problem:
        return problem
    if search.original.at_roofline(AT_ROOFLINE):
        return "the kernel is at its roofline"
    gate = gate_of(search)
    async with Thinking(search, gate) as thinking:
        return await _rounds(search, gate, thinking)


async def _rounds(search: Search, gate: Gate, thinking: Thinking) -> str:
    """Go round until nothing improves; returns why it ended.

    Engines that take their time think while the rounds of the others go on, and are waited for once these are over.
    Where what they propose becomes the best, the others have something new to start from.
    """
    rounds, going, reason = 0, bool(search.engines), ""
    while True:
        thinking.begin()
        before = search.suggestion
        if going:
            rounds += 1
            reason = await _round(search, gate)
            going = search.suggestion is not before
            if going and rounds >= MAX_ROUNDS:
                going, reason = False, "enough rounds"
        elif not thinking.busy:
            return thinking.ended(reason)
        await thinking.try_what_came(wait_s=0.0 if going else search.left_s)
        if search.suggestion is not before and search.best is not None:
            search.note_bottleneck(search.best)
            if search.best.at_roofline(AT_ROOFLINE):
                return "the kernel is at its roofline"
            going = going or (bool(search.engines) and rounds < MAX_ROUNDS and search.best.candidate.origin != "rule")
        if search.left_s <= 0 and (going or thinking.busy):
            return "budget spent"


async def assess_original(search: Search) -> str:
    """Compile, and with a GPU time, the original; returns why the search ends here, or an empty text."""
    subject = search.subject
    search.say("assess", f"compiling {subject.kernel.name}")
    assessed = await assess(
        search.session, subject.program(), subject.kernel, subject.calls, search.judge, pinned=subject.pinned
    )
    require_launches(assessed, subject.kernel, subject.calls)
    search.baseline = original = Attempt(Candidate("original", (), ()), subject.text, assessed)
    problem = ""
    if original.compile_error:
        raise UsageError(f"{subject.kernel.name} does not compile for {search.session.arch}: {original.compile_error}")
    if search.measured:
        search.say("measure", "timing the original")
        (samples,) = await time_side_by_side(search, [], samples=SEARCH_SAMPLES)
        if samples.error:
            search.note(f"The original could not be timed: {samples.error}")
            problem = "the original could not be timed"
        else:
            original.settle(samples, search.judge)
            search.note_doubts(original)
            original.assessed = ranked(original.assessed, subject.kernel, subject.pinned)
    elif any(a.prediction is None for a in original.assessed):
        search.note(f"No time can be predicted for {search.session.arch}; choose a target with a GPU to measure on.")
        problem = "no time can be predicted here"
    search.findings = diagnose(subject.kernel, [a.case for a in original.assessed])
    search.note_bottleneck(original)
    return problem


async def _round(search: Search, gate: Gate) -> str:
    """Propose, compile, rank, and keep the most promising attempt that passes the gate."""
    proposed = await propose(search)
    if not proposed:
        return "nothing improved" if search.attempts else "there is nothing to try"
    await compile_all(search, proposed)
    compiled = [attempt for attempt in proposed if attempt.trial is None]
    if search.measured:
        await measure_promising(search, compiled)
    waiting = [attempt for attempt in compiled if attempt.trial is None]
    reason = "nothing improved"
    for attempt in sorted(waiting, key=lambda a: a.time_us(measured=search.measured)):
        if not promises(search, attempt):
            break
        if search.left_s <= 0:
            reason = "budget spent"
            break
        if not await verify(search, gate, attempt):
            continue
        suggestion = await confirm(search, attempt) if search.measured else predict_gain(search, attempt)
        if suggestion is not None and search.measured:
            if not await sanitise(search, gate, attempt):
                continue
            suggestion = dataclasses.replace(suggestion, trial=attempt.trial or suggestion.trial)
        if suggestion is not None:
            search.best, search.suggestion = attempt, suggestion
            break
    for attempt in waiting:
        if attempt.trial is None:
            search.drop(attempt, "not faster than the best")
    return reason
