"""The loop: assess, propose, compile, rank, verify, again from the best, until nothing improves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from tritonforge.diagnosis.assessment import Yardstick, ranked, require_launches
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.errors import UsageError
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.optimize.choosing import Round, simplest_first
from tritonforge.optimize.endings import (
    BELOW_NOISE,
    BUDGET_SPENT,
    ENOUGH_ROUNDS,
    INTERRUPTED,
    NOTHING_IMPROVED,
    NOTHING_TO_TRY,
    ROOFLINE,
)
from tritonforge.optimize.memory import Memory
from tritonforge.optimize.search import NOT_FINISHED, NOT_TRIED, ORIGINAL_S, Attempt, BudgetSpent, Search, Step
from tritonforge.optimize.shapes import Shaped, by_shape
from tritonforge.optimize.steps import (
    confirm,
    gate_of,
    pass_gate,
    predict_gain,
    propose,
    sanitise,
    time_side_by_side,
    verify,
)
from tritonforge.optimize.thinking import Thinking, not_better, promises
from tritonforge.profiling.measuring import SEARCH_SAMPLES, Samples
from tritonforge.rewrite import Engine, Thinker
from tritonforge.rewrite.rules.autotune_entry import config_first
from tritonforge.store import Store
from tritonforge.verify import Gate
from tritonforge.workload.subject import Subject

AT_ROOFLINE = 0.95
MAX_ROUNDS = 4
MOST_CONFIGS = 12
"""Of an autotuner's list that are compiled to find its best without a GPU."""


async def optimize(
    subject: Subject,
    session: Session,
    judge: Yardstick | None,
    engines: Sequence[Engine | Thinker],
    *,
    budget_s: float = 120.0,
    allow_slower: float = 0.0,
    on_step: Callable[[Step], None] = lambda _: None,
    store: Store | None = None,
    again: bool = False,
) -> OptimizeResult:
    """Return the fastest verified version of the subject's kernel, or say why there is none.

    Args:
        subject: the kernel, its file and the calls that it is judged on.
        session: where it is compiled, verified and, with a GPU, measured.
        judge: the GPU that predictions and rooflines speak of.
        engines: what proposes rewrites, in order; those that think do so beside the others.
        budget_s: seconds that it may take. What is under way at their end is cancelled; only the original is given a
            minute in any case.
        allow_slower: how much slower (a fraction) any one launch may become, beyond noise.
        on_step: told of every step, for progress.
        store: where every version that is tried is kept. What an earlier run of the same question left there is not
            tried again, and what it answered, when it had come to an end, is answered at once.
        again: try everything anew, whatever the store has.

    A cancellation ends the search and returns the best so far, with `stopped_because` "interrupted".

    Raises:
        JobError: when a call of the original cannot be repeated.
        UsageError: when the original does not compile.
        NoLaunchKnown: when no call launches the kernel.
    """
    quick = [engine for engine in engines if not isinstance(engine, Thinker)]
    search = Search(subject, session, judge, quick, budget_s, allow_slower, on_step)
    search.thinkers = [engine for engine in engines if isinstance(engine, Thinker)]
    search.memory = Memory(store, session, again=again) if store is not None else None
    options = {
        "budget": budget_s,
        "allow_slower": allow_slower,
        "engines": [f"{type(engine).__module__}.{type(engine).__qualname__}" for engine in quick],
    }
    # A model answers otherwise each time it is asked.
    remembered = search.memory if not search.thinkers else None
    try:
        await compile_original(search)
        if search.memory is not None:
            search.memory.begin(subject, judge)
        if remembered is not None and (known := remembered.answer(options)) is not None:
            return known
        reason = await _run(search)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if search.baseline is None or task is None:
            raise
        task.uncancel()
        reason = INTERRUPTED
    result = search.result(reason)
    if remembered is not None and not search.disturbed:
        remembered.keep_answer(options, result)
    return result


async def _run(search: Search) -> str:
    problem = await time_original(search)
    if problem:
        return problem
    if search.original.at_roofline(AT_ROOFLINE):
        return ROOFLINE
    if search.memory is not None and search.memory.known:
        search.note(f"Going on from {search.memory.known} versions that an earlier run had tried.")
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
                going, reason = False, ENOUGH_ROUNDS
        elif not thinking.busy:
            return thinking.ended(reason)
        await thinking.try_what_came(wait_s=0.0 if going else search.left_s)
        if search.suggestion is not before and search.best is not None:
            search.note_bottleneck(search.best)
            if search.best.at_roofline(AT_ROOFLINE):
                return ROOFLINE
            going = going or (bool(search.engines) and rounds < MAX_ROUNDS and search.best.candidate.origin != "rule")
        if search.left_s <= 0 and (going or thinking.busy):
            return BUDGET_SPENT


async def assess_original(search: Search) -> str:
    """Compile, and with a GPU time, the original; returns why the search ends here, or an empty text."""
    await compile_original(search)
    return await time_original(search)


async def compile_original(search: Search) -> None:
    """Compile the original and conclude what can be concluded without running it."""
    subject = search.subject
    search.say("assess", f"compiling {subject.kernel.name}")
    try:
        assessed = await search.within(search.assess(subject.program(), subject.kernel), least_s=ORIGINAL_S)
    except BudgetSpent:
        took = max(search.budget_s, ORIGINAL_S)
        raise UsageError(
            f"{subject.kernel.name} was not compiled within {took:.0f} s.", "Give it more time with --budget."
        ) from None
    require_launches(assessed, subject.kernel, subject.calls)
    search.baseline = original = Attempt(Candidate("original", (), ()), subject.text, assessed)
    if original.compile_error:
        raise UsageError(f"{subject.kernel.name} does not compile for {search.session.arch}: {original.compile_error}")


async def time_original(search: Search) -> str:
    """Time the original where there is a GPU, and diagnose it; returns why the search ends here, or an empty text."""
    subject, original, problem = search.subject, search.original, ""
    if search.measured:
        search.say("measure", "timing the original")
        try:
            (samples,) = await time_side_by_side(search, [], samples=SEARCH_SAMPLES)
        except BudgetSpent:
            samples = Samples(error="the budget ended before")
        if samples.error:
            search.note(f"The original could not be timed: {samples.error}")
            problem = "the original could not be timed"
        else:
            original.settle(samples, search.judge)
            search.note_doubts(original)
            original.assessed = ranked(original.assessed, subject.kernel, subject.pinned)
    else:
        await _best_config(search)
    if not search.measured and any(a.prediction is None for a in original.assessed):
        search.note(f"No time can be predicted for {search.session.arch}; choose a target with a GPU to measure on.")
        problem = "no time can be predicted here"
    search.findings = diagnose(subject.kernel, [a.case for a in original.assessed])
    search.note_bottleneck(original)
    return problem


async def _best_config(search: Search) -> None:
    """Judge a tuned original by the config of its list that is predicted to be fastest: its autotuner would find it."""
    subject, original = search.subject, search.original
    tuner = subject.kernel.autotune
    for index in range(1, min(len(tuner.configs), MOST_CONFIGS) if tuner is not None else 0):
        text = config_first(subject.kernel, subject.text, index)
        kernel = search.kernel_in(text) if text is not None else None
        if text is None or kernel is None:
            return
        search.say("assess", f"compiling config {index + 1} of {subject.kernel.name}")
        try:
            assessed = await search.within(search.assess(subject.program(text), kernel))
        except JobError:
            continue
        except BudgetSpent:
            return
        rival = Attempt(original.candidate, subject.text, assessed)
        if rival.compile_error is None and rival.time_us(measured=False) < original.time_us(measured=False):
            original.assessed, search.config = assessed, index
    if search.config and tuner is not None:
        search.note(f"The original is judged by the best of its configs as predicted, number {search.config + 1}.")


async def _round(search: Search, gate: Gate) -> str:
    """Propose, compile, measure what may be better, and keep the most promising version that passes the gate."""
    proposed = await propose(search)
    if not proposed:
        ended = NOTHING_IMPROVED if search.attempts else NOTHING_TO_TRY
        return BUDGET_SPENT if search.more_to_propose else ended
    going = await Round.of(search, proposed)
    if search.measured:
        await going.measure()
    else:
        await going.compile()
    by_launch = await by_shape(search, [one for one in proposed if one.trial is None])
    shaped = by_launch.attempt
    below_noise = going.below_noise
    for attempt in chain([shaped] if shaped else [], _in_order(search, going, proposed)):
        if attempt.trial is not None or search.left_s <= 0:
            continue
        if not promises(search, attempt):
            if search.measured:
                break
            below_noise = True  # what comes next may be predicted to be a little faster, with more rewrites
            continue
        if await _keep(search, gate, attempt):
            break
    if by_launch.winners and (shaped is None or search.best is not shaped):
        await _keep_by_launch(search, gate, by_launch)
    left = [one for one in (*proposed, shaped) if one is not None and one.trial is None]
    for attempt in left:
        spent = search.left_s <= 0 and search.suggestion is None and promises(search, attempt)
        search.drop(attempt, NOT_TRIED if spent else not_better(search, attempt), "unfinished" if spent else "slower")
    unfinished = {NOT_TRIED, NOT_FINISHED}
    if search.more_to_propose or any(one.trial is not None and one.trial.reason in unfinished for one in proposed):
        return BUDGET_SPENT
    return BELOW_NOISE if below_noise else NOTHING_IMPROVED


async def _keep_by_launch(search: Search, gate: Gate, found: Shaped) -> None:
    """Verify what is fastest on some launches alone: no suggestion for all of them, but a row of a table by size."""
    for attempt, launches in found.winners:
        if attempt.decided or search.left_s <= 0 or not await pass_gate(search, gate, attempt):
            continue
        assert attempt.trial is not None
        reason = f"the fastest on launch {', '.join(launches)} alone"
        attempt.trial = dataclasses.replace(attempt.trial, reason=reason)
        search.remember(attempt, "verified")


def _in_order(search: Search, going: Round, proposed: Sequence[Attempt]) -> Iterator[Attempt]:
    """Yield versions in the order in which to verify them: as they were measured, or as the study asks for them."""
    if search.measured:
        yield from simplest_first([one for one in proposed if one.trial is None], measured=True)
        return
    while (attempt := going.next_predicted()) is not None:
        yield attempt


async def _keep(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Verify an attempt and measure it for good; tells whether it is the best now."""
    if not await verify(search, gate, attempt):
        return False
    suggestion = await confirm(search, attempt) if search.measured else predict_gain(search, attempt)
    if suggestion is None:
        return False
    if search.measured and not await sanitise(search, gate, attempt):
        return False
    search.best = attempt
    search.suggestion = dataclasses.replace(suggestion, trial=attempt.trial or suggestion.trial)
    search.remember(attempt, "kept")
    return True
