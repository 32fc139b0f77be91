"""The steps of a round: propose, compile, measure, verify, confirm."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from statistics import median
from typing import Protocol

from tritonforge.diagnosis.assessment import assess
from tritonforge.domain.candidate import Candidate, Suggestion, Trial
from tritonforge.jobs import JobError
from tritonforge.optimize.search import Attempt, Search
from tritonforge.optimize.tasks import attempt_of, base_for_rules, task_of, trials_on
from tritonforge.prediction.model import RELATIVE_LOWEST
from tritonforge.profiling.measuring import FINAL_SAMPLES, SEARCH_SAMPLES, Samples, measure
from tritonforge.profiling.statistics import ratio_interval, summarise
from tritonforge.rewrite import Engine, Refusal, Task, unified_diff
from tritonforge.verify import Gate, reference_beside
from tritonforge.workload.launches import to_launch

MEASURED_GAIN = 1.02
"""A measured speedup below this is not worth a change of someone's code, even where its interval excludes 1."""
COMPILE_SHARE = 0.6
"""Of what is left of the budget, what compiling may take: the rest is for measuring and verifying."""
MEASURED_AT_ONCE = 8
MEASURED_PER_ROUND = 16


async def propose(search: Search) -> list[Attempt]:
    """Ask the engines for versions that were not tried yet; remember what they decline.

    They work beside the event loop: to rewrite and to analyse a large file takes seconds, and an editor goes on asking.
    """
    base = base_for_rules(search)
    task = await asyncio.to_thread(task_of, search, base)
    if task is None:
        return []
    trials = trials_on(search, base)
    fresh: list[Attempt] = []
    for engine in search.engines:
        for proposal in await asyncio.to_thread(_proposals, engine, task, trials):
            if isinstance(proposal, Refusal):
                if proposal.reason not in search.refusals:
                    search.refusals.append(proposal.reason)
                continue
            attempt = attempt_of(search, base, proposal)
            if attempt is not None:
                fresh.append(attempt)
    return fresh


def _proposals(engine: Engine, task: Task, trials: Sequence[Trial]) -> list[Candidate | Refusal]:
    return list(engine.propose(task, trials))


async def compile_all(search: Search, attempts: Sequence[Attempt]) -> None:
    """Compile attempts in as many lanes as the worker has; drop those that do not compile."""
    done = 0
    stop_at = search.left_s * (1 - COMPILE_SHARE)
    lanes = asyncio.Semaphore(max(1, search.session.worker.hello.lanes))

    async def one(attempt: Attempt) -> None:
        nonlocal done
        async with lanes:
            await _compile(search, attempt, stop_at)
            done += 1
            search.say("compile", attempt.candidate.title, done, len(attempts))

    async with asyncio.TaskGroup() as group:
        for attempt in attempts:
            group.create_task(one(attempt))


async def _compile(search: Search, attempt: Attempt, stop_at: float) -> None:
    if search.left_s <= stop_at:
        search.drop(attempt, "not tried: budget spent")
        return
    kernel = await asyncio.to_thread(search.kernel_in, attempt.text)
    if kernel is None:
        search.drop(attempt, "the edit loses the kernel")
        return
    try:
        attempt.assessed = await assess(
            search.session,
            search.program(attempt),
            kernel,
            search.subject.calls,
            search.judge,
            pinned=search.subject.pinned,
        )
    except JobError as error:
        search.drop(attempt, error.failure.message)
        return
    attempt.timed_s = search.spent_s
    if attempt.compile_error or not attempt.assessed:
        search.drop(attempt, attempt.compile_error or "it launches nothing")
    elif not attempt.has_wanted_config():
        search.drop(attempt, "the edit does not reach the launch: something else decides the value")


async def time_side_by_side(search: Search, attempts: Sequence[Attempt], *, samples: int) -> tuple[Samples, ...]:
    """Measure the original and `attempts` interleaved; returns their samples, the original's first."""
    kernel = search.subject.kernel
    results, notes = await measure(
        search.session.worker,
        [search.subject.program(), *(search.program(attempt) for attempt in attempts)],
        search.subject.calls,
        kernel=kernel.name,
        identify=lambda recorded: to_launch(kernel, recorded).id,
        samples=samples,
        budget_s=max(5.0, min(20.0, search.left_s)),
    )
    search.note(*notes)
    counts = {one.launch.id: one.launch.count for one in search.original.assessed}
    return tuple(dataclasses.replace(one, counts=counts) for one in results)


async def measure_promising(search: Search, compiled: Sequence[Attempt]) -> None:
    """Measure the attempts that are predicted to be fastest, a batch at a time; drop the others.

    It ends early when none of the rest can be expected to beat what was measured.
    """
    ranked = sorted(compiled, key=lambda attempt: attempt.time_us(measured=False))[:MEASURED_PER_ROUND]
    for start in range(0, len(ranked), MEASURED_AT_ONCE):
        batch = ranked[start : start + MEASURED_AT_ONCE]
        if search.left_s <= 0 or not may_win(batch[0], [search.original, *ranked[:start]]):
            break
        search.say("measure", f"{len(batch)} candidates side by side", start, len(ranked))
        _, *results = await time_side_by_side(search, batch, samples=SEARCH_SAMPLES)
        for attempt, samples in zip(batch, results, strict=True):
            if samples.error:
                search.drop(attempt, samples.error)
            else:
                attempt.settle(samples, search.judge)
                attempt.timed_s = search.spent_s
    for attempt in compiled:
        if attempt.samples is None and attempt.trial is None:
            search.drop(attempt, "predicted to be slower; not measured")


class Timed(Protocol):
    """A version with a predicted and, perhaps, a measured time."""

    def time_us(self, *, measured: bool) -> float:
        """Return the time in µs, infinite when it is not known."""


def may_win(attempt: Timed, measured: Sequence[Timed]) -> bool:
    """Tell whether an attempt may still be faster than all that were measured, as far as the model can be trusted.

    One of which nothing is predicted always may.
    The model's error has a part that all versions of one kernel share: the median of measured over predicted times. The
    rest is what `RELATIVE_LOWEST` bounds.
    """
    pairs = [(one.time_us(measured=True), one.time_us(measured=False)) for one in measured]
    known = [(time, predicted) for time, predicted in pairs if math.isfinite(time) and math.isfinite(predicted)]
    expected = attempt.time_us(measured=False)
    if not known or not math.isfinite(expected):
        return True
    shared = median(time / predicted for time, predicted in known)
    return expected * shared * RELATIVE_LOWEST <= min(time for time, _ in known)


def gate_of(search: Search) -> Gate:
    """Return the gate for versions of the original, once that was assessed."""
    return Gate(
        search.session.worker,
        search.subject.program(),
        search.subject.calls,
        on_device=search.measured,
        grid=frozenset(extent for a in search.original.assessed for extent in a.launch.config.grid if extent > 1),
        arch=search.session.arch,
        kernel=search.subject.kernel,
        reference=reference_beside(search.subject.program(), search.subject.calls),
    )


async def verify(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Let the gate judge `attempt`; tells whether it passed."""
    slower = search.slower_launch(attempt)
    if slower:
        search.drop(attempt, slower)
        return False
    return await pass_gate(search, gate, attempt)


async def pass_gate(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Let the gate judge `attempt`, however fast it is; tells whether it passed."""
    search.say("verify", attempt.candidate.title)
    tile = max(search.original.largest_tile, attempt.largest_tile)
    try:
        checked = await gate.check(search.program(attempt), tile=tile)
    except JobError as error:
        search.drop(attempt, f"could not be verified: {error.failure.message}")
        return False
    verdict = checked.verdict
    search.note(*checked.notes)
    trial = search.trial(attempt, reason="" if verdict.accepted else f"refused: {verdict.reason}")
    attempt.trial = dataclasses.replace(trial, verdict=verdict, accepted=verdict.accepted)
    return verdict.accepted


async def sanitise(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Run what is about to be suggested under a sanitiser, where there is one; tells whether it is still accepted."""
    trial = attempt.trial
    assert trial is not None
    assert trial.verdict is not None
    search.say("verify", f"{attempt.candidate.title}, under a sanitiser")
    verdict = await gate.sanitised(search.program(attempt), trial.verdict)
    reason = "" if verdict.accepted else f"refused: {verdict.reason}"
    attempt.trial = dataclasses.replace(trial, verdict=verdict, accepted=verdict.accepted, reason=reason)
    return verdict.accepted


async def confirm(search: Search, attempt: Attempt) -> Suggestion | None:
    """Measure original and winner once more, alone and with more samples: the number that people see."""
    search.say("confirm", attempt.candidate.title)
    before, after = await time_side_by_side(search, [attempt], samples=FINAL_SAMPLES)
    if before.error or after.error:
        search.note(f"The winner could not be timed again: {before.error or after.error}")
        return None
    speedup, interval = ratio_interval(before.total(), after.total())
    trial = attempt.trial
    assert trial is not None
    if interval[0] <= 1.0 or speedup < MEASURED_GAIN:
        attempt.trial = dataclasses.replace(trial, accepted=False, reason="not faster when measured again")
        return None
    search.original.settle(before, search.judge)
    attempt.settle(after, search.judge)
    search.note_doubts(attempt)
    measured = {launch: summarise(row) for launch, row in after.by_launch.items()}
    times = {launch: one.median for launch, one in measured.items()}
    attempt.trial = dataclasses.replace(trial, time_us=times, measured=measured)
    return Suggestion(attempt.trial, speedup, interval, "measured", _diff(search, attempt))


def predict_gain(search: Search, attempt: Attempt) -> Suggestion:
    """Suggest a verified attempt on the model's word, with the model's own interval."""
    assert attempt.trial is not None
    before = [(a.prediction.interval, a.launch.count) for a in search.original.assessed if a.prediction]
    after = [(a.prediction.interval, a.launch.count) for a in attempt.assessed if a.prediction]
    lowest = sum(low * n for (low, _), n in before) / sum(high * n for (_, high), n in after)
    highest = sum(high * n for (_, high), n in before) / sum(low * n for (low, _), n in after)
    speedup = search.original.time_us(measured=False) / attempt.time_us(measured=False)
    return Suggestion(attempt.trial, speedup, (lowest, highest), "predicted", _diff(search, attempt))


def _diff(search: Search, attempt: Attempt) -> str:
    return unified_diff(search.subject.texts(), attempt.candidate.edits)
