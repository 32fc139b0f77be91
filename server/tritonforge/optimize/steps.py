"""The steps of a round: propose, compile, measure, verify."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tritonforge.domain.candidate import Suggestion
from tritonforge.jobs import JobError
from tritonforge.jobs.together import ended
from tritonforge.optimize.foreseen import too_many_registers
from tritonforge.optimize.search import NOT_FINISHED, NOT_TRIED, ORIGINAL_S, Attempt, BudgetSpent, Search
from tritonforge.optimize.tasks import attempt_of, base_for_rules, task_of, trials_on
from tritonforge.profiling.measuring import Samples, measure
from tritonforge.profiling.statistics import summarise
from tritonforge.rewrite import Refusal, unified_diff
from tritonforge.verify import Gate, reference_beside
from tritonforge.workload.launches import to_launch

COMPILE_SHARE = 0.4
"""Of what is left of the budget, what compiling may take: one verification may take as long, and must end in time."""
UNPREDICTED = frozenset(["tensor-descriptors"])
"""Rewrites of which the time model cannot tell what they gain: measured on an H200, nothing in products of 16 bits and
8 % in attention, and the same by its count of bytes and operations. They are for targets that measure."""
_NOT_RUN = "it could not be run to the end"
"""How a verdict begins that says of a job that it was ended."""


async def propose(search: Search, compiling: Compiling) -> list[Attempt]:
    """Ask the engines for versions that were not tried yet; remember what they decline.

    They work beside the event loop: to rewrite and to analyse a large file takes seconds, an editor goes on asking, and
    the first versions compile while others are made. Where the gate still judges the best version, engines are told of
    it as if it had passed. Once the budget has ended, one version is enough to say that it was not tried.
    """
    search.say("propose", f"what may be faster than {search.best.candidate.title if search.best else 'the original'}")
    base = base_for_rules(search)
    task = await asyncio.to_thread(task_of, search, base)
    if task is None:
        return []
    trials = trials_on(search, base)
    fresh: list[Attempt] = []
    for engine in search.engines:
        proposals = iter(engine.propose(task, trials))
        while (proposal := await asyncio.to_thread(next, proposals, None)) is not None:
            if isinstance(proposal, Refusal):
                if proposal.reason not in search.refusals:
                    search.refusals.append(proposal.reason)
                continue
            if not search.measured and any(name in UNPREDICTED for name, _ in proposal.rewrites):
                continue
            attempt = attempt_of(search, base, proposal)
            if attempt is not None:
                recall(search, attempt)
                fresh.append(attempt)
                if not attempt.decided and (why := too_many_registers(search, attempt)):
                    search.drop(attempt, why, "refused")
                if not attempt.decided:
                    compiling.begin(attempt)
            if search.left_s <= 0:
                search.more_to_propose = True
                break
    return fresh


def recall(search: Search, attempt: Attempt) -> None:
    """Take over what an earlier run found out about a version: its fate, or how fast it was beside the original."""
    known = search.memory.find(search.program(attempt)) if search.memory else None
    if known is None:
        return
    if known.final:
        attempt.trial = known.trial
    elif known.speedup is not None and search.measured:
        attempt.speedup = known.speedup
        attempt.known_us = search.original.time_us(measured=True) / known.speedup[0]
        counts = {one.launch.id: one.launch.count for one in search.original.assessed}
        times = known.trial.time_us or {}
        total = sum(time * counts.get(launch, 1) for launch, time in times.items())
        # Another process may be on another clock: its times are those of the original now, as far as they can be.
        attempt.known_by_launch = {launch: time * attempt.known_us / total for launch, time in times.items()}


class Compiling:
    """Versions that compile in as many lanes as the worker has, each from when it is known; what does not is dropped.

    Leaving the context ends what is under way.
    """

    def __init__(self, search: Search) -> None:
        """Begin with nothing to compile."""
        self._search = search
        self._stop_at = search.left_s * (1 - COMPILE_SHARE)
        self._lanes = asyncio.Semaphore(max(1, search.session.worker.hello.lanes))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._done: list[Attempt] = []
        self._on_done: Callable[[Attempt], None] = lambda _: None

    async def __aenter__(self) -> Self:
        """Begin with nothing to compile."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is under way and wait until it has ended."""
        await ended(self._tasks.values())

    def __contains__(self, attempt: Attempt) -> bool:
        """Whether a version was given to be compiled."""
        return id(attempt) in self._tasks

    def begin(self, attempt: Attempt) -> None:
        """Compile a version as soon as a lane is free."""
        self._tasks[id(attempt)] = asyncio.create_task(self._one(attempt))

    def tell(self, on_done: Callable[[Attempt], None]) -> None:
        """Tell `on_done` of each version that is compiled, or dropped: at once of those that are already.

        All are known by now: the share of the budget that compiling may take counts from here.
        """
        self._on_done = on_done
        self._stop_at = self._search.left_s * (1 - COMPILE_SHARE)
        for attempt in self._done:
            on_done(attempt)

    async def finish(self) -> None:
        """Wait until all are compiled.

        Raises:
            TargetUnreachable: when the worker is gone.
        """
        await asyncio.gather(*self._tasks.values())

    async def _one(self, attempt: Attempt) -> None:
        async with self._lanes:
            await _compile(self._search, attempt, self._stop_at)
        self._done.append(attempt)
        self._search.say("compile", attempt.candidate.title, len(self._done), len(self._tasks))
        self._on_done(attempt)


async def compile_all(search: Search, attempts: Sequence[Attempt]) -> None:
    """Compile attempts in as many lanes as the worker has; drop those that do not compile.

    Raises:
        TargetUnreachable: when the worker is gone.
    """
    async with Compiling(search) as compiling:
        for attempt in attempts:
            compiling.begin(attempt)
        await compiling.finish()


async def _compile(search: Search, attempt: Attempt, stop_at: float) -> None:
    if attempt.decided:
        return  # it was given up while it waited
    left = search.left_s - stop_at
    if left <= 0:
        search.drop(attempt, NOT_TRIED)
        return
    kernel = await asyncio.to_thread(search.kernel_in, attempt.text)
    if kernel is None:
        search.drop(attempt, "the edit loses the kernel", "refused")
        return
    try:
        async with asyncio.timeout(left) as limit:
            attempt.assessed = await search.assess(search.program(attempt), kernel, search.turn_of(attempt))
    except JobError as error:
        if error.kind in {"user-error", "compile-error"}:
            search.drop(attempt, error.failure.message, "compile-error")
        else:
            search.fail(attempt, error.failure.message)
        return
    except TimeoutError:
        if not limit.expired():
            raise
        search.drop(attempt, NOT_FINISHED)
        return
    attempt.timed_s = search.spent_s
    if attempt.compile_error or not attempt.assessed:
        search.drop(attempt, attempt.compile_error or "it launches nothing", "compile-error")
    elif not attempt.has_wanted_config():
        search.drop(attempt, "the edit does not reach the launch: something else decides the value", "refused")


async def time_side_by_side(
    search: Search,
    attempts: Sequence[Attempt],
    *,
    samples: int,
    whole: bool = False,
    fresh: bool = False,
    beside: bool = False,
    narrow: bool = False,
) -> tuple[Samples, ...]:
    """Measure the original and `attempts` interleaved; returns their samples, the original's first.

    `whole`: measure whole calls, too, with all that their host code has the GPU do; `fresh`: in a new process;
    `beside`: while others compile; `narrow`: autotuned attempts choose among few configurations. Where the original
    cannot be timed any more, its samples say why.

    Raises:
        BudgetSpent: when the budget ends before.
        JobError: when the original alone cannot be timed.
    """
    kernel = search.subject.kernel
    work = measure(
        search.session.worker,
        [search.subject.program(), *(search.program(attempt) for attempt in attempts)],
        search.subject.calls,
        kernel=kernel.name,
        identify=lambda recorded: to_launch(kernel, recorded).id,
        samples=samples,
        # A new process takes seconds before it measures.
        budget_s=min(20.0, max(1.0, search.left_s / 2)) if fresh else max(5.0, min(20.0, search.left_s)),
        whole=whole,
        fresh=fresh,
        beside=beside,
        narrow=narrow,
    )
    try:
        # What the original takes is asked first, and without it there is nothing to tell.
        results, notes = await search.within(work, least_s=ORIGINAL_S if not attempts else 0.0)
    except JobError as error:
        if not attempts:
            raise
        # It could be timed before: whatever has happened to the machine must not cost what was found so far.
        return Samples(error=error.failure.message), *(Samples() for _ in attempts)
    search.note_measuring(*notes)
    counts = {one.launch.id: one.launch.count for one in search.original.assessed}
    return tuple(dataclasses.replace(one, counts=counts) for one in results)


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


async def pass_gate(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Let the gate judge `attempt`, however fast it is; tells whether it passed.

    The budget bounds this, too: what is not judged by its end is not accepted. What the gate said in an earlier run
    stands.
    """
    known = search.memory.find(search.program(attempt)) if search.memory else None
    if known is not None and known.trial.verdict is not None and known.trial.verdict.accepted:
        verdict = known.trial.verdict
    else:
        search.say("verify", attempt.candidate.title)
        if search.memory is not None:
            await search.memory.written()
        tile = max(search.original.largest_tile, attempt.largest_tile)
        try:
            checked = await search.within(gate.check(search.program(attempt), tile=tile))
        except JobError as error:
            search.fail(attempt, f"could not be verified: {error.failure.message}")
            return False
        except BudgetSpent:
            search.drop(attempt, NOT_FINISHED)
            return False
        verdict = checked.verdict
        search.say("verify", f"{attempt.candidate.title}: {'passed' if verdict.accepted else 'refused'}")
        search.note(*checked.notes)
    trial = search.trial(attempt, reason="" if verdict.accepted else f"refused: {verdict.reason}")
    attempt.trial = dataclasses.replace(trial, verdict=verdict, accepted=verdict.accepted)
    # What ran out of time or memory may have done so because the machine was busy.
    lasting = not verdict.reason.startswith(_NOT_RUN)
    search.disturbed |= not lasting
    search.remember(attempt, "verified" if verdict.accepted else "refused" if lasting else "unfinished")
    return verdict.accepted


async def sanitise(search: Search, gate: Gate, attempt: Attempt) -> bool:
    """Run what is about to be suggested under a sanitiser, where there is one; tells whether it is still accepted."""
    trial = attempt.trial
    assert trial is not None
    assert trial.verdict is not None
    if "sanitiser" in trial.verdict.checks:  # as an earlier run had it
        return trial.verdict.accepted
    search.say("verify", f"{attempt.candidate.title}, under a sanitiser")
    try:
        verdict = await search.within(gate.sanitised(search.program(attempt), trial.verdict))
    except BudgetSpent:
        attempt.trial = dataclasses.replace(trial, accepted=False, reason=NOT_FINISHED)
        return False
    reason = "" if verdict.accepted else f"refused: {verdict.reason}"
    attempt.trial = dataclasses.replace(trial, verdict=verdict, accepted=verdict.accepted, reason=reason)
    search.remember(attempt, "verified" if verdict.accepted else "refused")
    return verdict.accepted


def keep(search: Search, attempt: Attempt) -> None:
    """Take over as the best what the gate has passed and, with a GPU, was measured at length."""
    search.best = attempt
    search.kept.append(attempt)
    if search.measured:
        search.suggestion = suggest(search, attempt)
    else:
        search.suggestion = predict_gain(search, attempt)
        search.remember(attempt, "kept")


def suggest(search: Search, attempt: Attempt) -> Suggestion:
    """Suggest a verified attempt at what it was measured at, beside the original, the last time."""
    assert attempt.trial is not None
    assert attempt.speedup is not None
    measured = {launch: summarise(row) for launch, row in attempt.samples.by_launch.items()} if attempt.samples else {}
    times = attempt.times_by_launch()
    attempt.trial = dataclasses.replace(attempt.trial, time_us=times, measured=measured)
    speedup, *interval = attempt.speedup
    return Suggestion(attempt.trial, speedup, (interval[0], interval[1]), "measured", _diff(search, attempt))


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
