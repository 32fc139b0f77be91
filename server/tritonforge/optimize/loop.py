"""The loop: assess, explore, verify, again from the best, until nothing improves; then check what is suggested."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tritonforge.diagnosis.assessment import Assessed, Yardstick, ranked, require_launches
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Scalar
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.together import all_of
from tritonforge.optimize.confirming import confirm_best, explained, leave_unchecked, reserve
from tritonforge.optimize.endings import BUDGET_SPENT, ENOUGH_ROUNDS, INTERRUPTED, OVER, ROOFLINE
from tritonforge.optimize.exploring import explore, overtaken
from tritonforge.optimize.judging import Judging
from tritonforge.optimize.memory import Memory
from tritonforge.optimize.search import ORIGINAL_S, Attempt, BudgetSpent, Search, Step
from tritonforge.optimize.steps import gate_of, time_side_by_side
from tritonforge.optimize.thinking import Thinking
from tritonforge.profiling.measuring import SEARCH_SAMPLES, Samples
from tritonforge.report.wording import compile_error
from tritonforge.rewrite import Engine, Thinker
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

    What is suggested was checked in a fresh process at the end. A cancellation ends the search and returns the best so
    far, with `stopped_because` "interrupted"; a note says that this one was not checked.

    Raises:
        JobError: when a call of the original cannot be repeated.
        UsageError: when the original does not compile.
        NoLaunchKnown: when no call launches the kernel.
    """
    quick = [engine for engine in engines if not isinstance(engine, Thinker)]
    search = Search(subject, session, judge, quick, budget_s, allow_slower, on_step)
    search.thinkers = [engine for engine in engines if isinstance(engine, Thinker)]
    options = {
        "budget": budget_s,
        "allow_slower": allow_slower,
        "engines": [f"{type(engine).__module__}.{type(engine).__qualname__}" for engine in quick],
    }
    if store is None:
        return await _answer(search, options)
    async with Memory(store, session, again=again) as search.memory:
        return await _answer(search, options)


async def _answer(search: Search, options: Mapping[str, Any]) -> OptimizeResult:
    """Answer as an earlier run did, or search, and remember the answer where the search had come to an end."""
    # A model answers otherwise each time it is asked.
    remembered = search.memory if not search.thinkers else None
    try:
        await compile_original(search)
        if search.memory is not None:
            search.memory.begin(search.subject, search.judge)
        if remembered is not None and (known := remembered.answer(options)) is not None:
            return known
        reason = await _run(search)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if search.baseline is None or task is None:
            raise
        task.uncancel()
        reason = INTERRUPTED
        leave_unchecked(search, "the search was interrupted")
    result = search.result(explained(search, reason))
    if remembered is not None and not search.disturbed and reason in OVER:
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
    reserve(search)
    async with (
        _prepared(gate_of(search)) as gate,
        Thinking(search, gate) as thinking,
        Judging(search, gate) as judging,
    ):
        reason = await _rounds(search, judging, thinking)
    await confirm_best(search)
    return reason


@asynccontextmanager
async def _prepared(gate: Gate) -> AsyncIterator[Gate]:
    """Have the gate do beforehand what depends on the original alone; what of it is under way at the end is ended."""
    gate.prepare()
    try:
        yield gate
    finally:
        await gate.close()


async def _rounds(search: Search, judging: Judging, thinking: Thinking) -> str:
    """Go round until nothing improves; returns why it ended.

    With a GPU the gate judges what a round found while the next round goes on from it. Engines that take their time
    think meanwhile, and are waited for once the rounds of the others are over; their answers are held against what the
    gate has passed. Where what they propose becomes the best, the others have something new to start from.
    """
    bases: set[int] = set()
    while True:
        thinking.begin()
        if _goes_on(search, bases):
            bases.add(id(search.best))
            search.rounds += 1
            found = await explore(search)
            await judging.settled()
            judging.begin(found)
            if not search.measured:
                await judging.settled()
        elif judging.busy:
            await judging.settled()
        elif not thinking.busy:
            over = search.engines and search.rounds >= MAX_ROUNDS and id(search.best) not in bases
            return thinking.ended(ENOUGH_ROUNDS if over else judging.reason)
        if thinking.came or not (judging.busy or _goes_on(search, bases)):
            await judging.settled()
            await thinking.try_what_came(wait_s=0.0 if _goes_on(search, bases) else search.left_s)
        if search.best is not None and search.best.at_roofline(AT_ROOFLINE):
            await judging.settled()
            if search.best is not None and search.best.at_roofline(AT_ROOFLINE):
                return ROOFLINE
        if search.left_s <= 0:
            await judging.settled()
            if thinking.busy or _unfinished(search, bases):
                return BUDGET_SPENT


def _goes_on(search: Search, bases: set[int]) -> bool:
    """Tell whether there is another round: from the original, then from each best version that none began with."""
    return _unfinished(search, bases) and (search.left_s > 0 or not search.rounds)


def _unfinished(search: Search, bases: set[int]) -> bool:
    anew = id(search.best) not in bases or bool(overtaken(search))
    return bool(search.engines) and search.rounds < MAX_ROUNDS and anew


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
        raise UsageError(
            f"{subject.kernel.name} does not compile for {search.session.arch}: {compile_error(original.compile_error)}"
        )


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
    return problem


async def _best_config(search: Search) -> None:
    """Judge a tuned original by the config of its list that is predicted to be fastest: its autotuner would find it.

    Of a long list as many are compiled as there may be, spread over it: configs beside each other differ in little.
    Of one that the source does not show the first ones are: it may be any length, and turns go round.
    """
    subject, original = search.subject, search.original
    tuner = subject.kernel.autotune
    if tuner is None:
        return
    last = (len(tuner.configs) or MOST_CONFIGS) - 1
    fewer = min(last, MOST_CONFIGS - 1)
    lanes = asyncio.Semaphore(max(1, search.session.worker.hello.lanes))

    async def rival(turn: int) -> tuple[int, tuple[Assessed, ...]] | None:
        async with lanes:
            search.say("assess", f"compiling config {turn + 1} of {subject.kernel.name}")
            try:
                return turn, await search.assess(subject.program(), subject.kernel, turn)
            except JobError:
                return None

    try:
        found = await search.within(all_of(rival(round(last * at / fewer)) for at in range(1, fewer + 1)))
    except BudgetSpent:
        return
    for turn, assessed in (one for one in found if one is not None):
        other = Attempt(original.candidate, subject.text, assessed)
        if other.compile_error is None and other.time_us(measured=False) < original.time_us(measured=False):
            original.assessed, search.turn = assessed, turn
    if search.turn and original.config is not None:
        given = {name for one in tuner.configs for name, _ in (*one.constexprs, *one.options)}
        given = given or {*subject.kernel.tiles, "num_warps", "num_stages"}
        values = (*original.config.constexprs, *original.config.options)
        said = ", ".join(f"{name}={v.value}" for name, v in values if name in given and isinstance(v, Scalar))
        search.note(f"The original is judged by the best of its configs as predicted: {said}.")
