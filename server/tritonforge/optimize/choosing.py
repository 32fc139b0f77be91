"""Measuring what is worth it: few repetitions for all that the study asks for, more for those that may be the best."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module

from tritonforge.jobs.together import ended
from tritonforge.optimize import constraints
from tritonforge.optimize.fairness import charged
from tritonforge.optimize.guide import Guide
from tritonforge.optimize.points import points_of
from tritonforge.optimize.search import NOT_FINISHED, NOT_MEASURED, NOT_TRIED, Attempt, BudgetSpent, Search
from tritonforge.optimize.steps import Compiling, time_side_by_side
from tritonforge.optimize.worth import STEP_GAIN, may_promise, may_win
from tritonforge.profiling.measuring import Samples

RUNGS = (5, 15, 45)
"""Repetitions of successive halving (Jamieson and Talwalkar 2016): of all, then of those that may still be the best."""
AT_ONCE = 8
"""Versions that are measured side by side."""
PER_ROUND = 24
"""`benchmarks/bench_search.py`: after as many the best that was found is within 0.1 % of the best there is."""
NOISE = STEP_GAIN - 1.0
"""The share of a time that must be expected to be saved: what is less is not told from noise, nor worth a change."""
PER_REWRITE = 0.01
"""What one rewrite more must be predicted to save where nothing is measured: the model does not tell less apart."""


class Round:
    """The versions of one round, and the study that says which of them comes next."""

    def __init__(
        self,
        search: Search,
        attempts: Sequence[Attempt],
        earlier: Sequence[Attempt],
        guide: Guide,
        compiling: Compiling,
    ) -> None:
        """Begin with versions that compile; the study is told of the original and of earlier rounds."""
        self._search = search
        self._compiling = compiling
        self._new = list(attempts)
        self._attempts = [search.original, *attempts, *earlier]
        self._places = {id(one): place for place, one in enumerate(self._attempts)}
        self._guide = guide
        self._changed = asyncio.Event()
        self._finished = False
        self.below_noise = False
        """Whether it ended because nothing that was left was expected to save more than noise."""
        for attempt in (search.original, *earlier):
            time_us = attempt.time_us(measured=search.measured)
            verdict = attempt.trial.verdict if attempt.trial else None
            if verdict is not None and not verdict.accepted:
                guide.refuse(self._place(attempt), constraints.GATE)
            elif 0 < time_us < float("inf"):
                self._know(attempt)
                # What was fast and given up, for having what the gate refused, is not what there is to improve on.
                counts = attempt is search.original or attempt is search.best
                (guide.tell if counts else guide.teach)(self._place(attempt), time_us)

    @classmethod
    async def of(cls, search: Search, attempts: Sequence[Attempt], compiling: Compiling) -> Round:
        """Begin a study of `attempts`, while they compile; Optuna is loaded beside the event loop."""
        await asyncio.to_thread(import_module, "tritonforge.optimize.sampler")
        new = {id(attempt) for attempt in attempts}
        earlier = [one for one in search.attempts.values() if id(one) not in new]
        candidates = [one.candidate for one in (search.original, *attempts, *earlier)]
        return cls(search, attempts, earlier, Guide(points_of(candidates, search.original.config)), compiling)

    def _place(self, attempt: Attempt) -> int:
        return self._places[id(attempt)]

    def _know(self, attempt: Attempt) -> None:
        original = self._search.original
        dearer = 1.0 if self._search.measured else 1.0 + PER_REWRITE * len(attempt.candidate.rewrites)
        self._guide.ready(
            self._place(attempt),
            attempt.time_us(measured=False) * dearer,
            original.time_us(measured=self._search.measured),
        )

    async def compile(self) -> None:
        """Wait for what compiles; tell the study what came out, and what is known to be of no use."""
        for attempt in self._new:
            if attempt not in self._compiling and (attempt.decided or not attempt.assessed):
                self._guide.refuse(self._place(attempt), constraints.RUNS)
            elif attempt not in self._compiling:  # taken up again
                self._compiled(attempt)
        try:
            self._compiling.tell(self._compiled)
            await self._compiling.finish()
        finally:
            self._finished = True
            self._changed.set()

    def _compiled(self, attempt: Attempt) -> None:
        search, place = self._search, self._place(attempt)
        if attempt.trial is None and (why := constraints.broken(attempt, search.original, measured=search.measured)):
            search.drop(attempt, why[1], "refused")
            self._guide.refuse(place, why[0])
        elif attempt.trial is not None:
            self._guide.refuse(place, constraints.COMPILES)
        else:
            self._know(attempt)
            if search.measured and attempt.known_us is not None:
                self._guide.tell(place, attempt.known_us)
        self._changed.set()

    async def measure(self) -> None:
        """Compile, and measure meanwhile what the study asks for; then measure the best of it again."""
        compiling = asyncio.create_task(self.compile())
        try:
            measured = await self._first_rung()
            await compiling
        finally:
            await ended([compiling])
        await halve(self._search, measured)
        for attempt in self._new:
            if attempt.trial is None and attempt.samples is None and attempt.known_us is None:
                spent = self._search.left_s <= 0
                self._search.drop(attempt, NOT_TRIED if spent else NOT_MEASURED)

    async def _first_rung(self) -> list[Attempt]:
        search, done = self._search, list[Attempt]()
        most = sum(one.trial is None for one in self._new)
        while search.left_s > 0 and len(done) < PER_ROUND:
            # At first half of them, so that there is something to choose among; then whatever there is.
            enough = 1 if done else max(min(AT_ONCE, most), min(PER_ROUND, most // 2))
            await self._until_ready(enough)
            if not self._guide.waiting:
                break
            if self._guide.gain() < NOISE:
                if not self._finished:
                    self._changed.clear()
                    await search.within_or_not(self._changed.wait())
                    continue
                self.below_noise = True
                break
            batch = self._ask(min(AT_ONCE, PER_ROUND - len(done)))
            if not any(may_win(one, [search.original, *done]) for one in batch):
                self.below_noise = True
                break
            search.say("measure", f"{len(batch)} candidates side by side", len(done), most)
            if not await _timed(search, batch, RUNGS[0], beside=True):
                break
            for attempt in batch:
                if attempt.trial is not None:
                    self._guide.refuse(self._place(attempt), constraints.RUNS)
                else:
                    self._guide.tell(self._place(attempt), attempt.time_us(measured=True))
            done += batch
        return done

    def _ask(self, count: int) -> list[Attempt]:
        places = (self._guide.ask() for _ in range(count))
        return [self._attempts[place] for place in places if place is not None]

    async def _until_ready(self, count: int) -> None:
        while not self._finished and self._guide.waiting < count:
            self._changed.clear()
            if not await self._search.within_or_not(self._changed.wait()):
                return

    def next_predicted(self) -> Attempt | None:
        """Return what the study asks for next where nothing is measured, None when nothing is left."""
        place = self._guide.ask()
        return None if place is None else self._attempts[place]


async def halve(search: Search, attempts: Sequence[Attempt]) -> None:
    """Measure again, with more repetitions, whatever may be the best as far as its interval says.

    What cannot be worth going on from, however the interval turns out, is left as it is.
    """
    alive = [one for one in attempts if one.trial is None and one.speedup is not None]
    for samples in RUNGS[1:]:
        alive = [one for one in overlapping(alive) if may_promise(search, one)][:AT_ONCE]
        if len(alive) < 2 or search.left_s <= 0:
            return
        search.say("measure", f"{len(alive)} candidates that may be the best")
        # Nothing compiles any more; and what host code adds is seen before a version is verified for nothing.
        if not await _timed(search, alive, samples, whole=True):
            return
        alive = [one for one in alive if one.trial is None]
        for one in alive:
            one.at_length = samples == RUNGS[-1]


async def measure_at_length(search: Search, attempt: Attempt) -> bool:
    """Measure what is going to be judged with as many repetitions as there are, whole calls too, if it was not yet.

    What an earlier run measured stays as it is: it is going to be checked in a fresh process in any case. Tells whether
    its time is known now.
    """
    if attempt.at_length or (attempt.samples is None and attempt.known_us is not None):
        return True
    search.say("measure", f"{attempt.candidate.title}, at length")
    trial = attempt.trial
    timed = await _timed(search, [attempt], RUNGS[-1], whole=True)
    attempt.at_length = timed and attempt.trial is trial and attempt.samples is not None
    return attempt.at_length


def overlapping(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the fastest of what was measured, and all whose interval overlaps its own, the fastest first."""
    known = [(one, one.speedup) for one in attempts if one.speedup is not None]
    ranked = sorted(known, key=lambda pair: -pair[1][0])
    return [one for one, (_, _, high) in ranked if high >= ranked[0][1][1]]


def simplest_first(attempts: Sequence[Attempt], *, measured: bool) -> list[Attempt]:
    """Sort by time; among those that cannot be told from the fastest, the one with the fewest rewrites comes first."""
    ranked = sorted(attempts, key=lambda one: one.time_us(measured=measured))
    if not measured:
        return ranked
    level = overlapping([one for one in ranked if one.samples is not None])
    first = sorted(level, key=lambda one: len(one.candidate.rewrites))
    placed = {id(one) for one in first}
    return [*first, *(one for one in ranked if id(one) not in placed)]


async def _timed(
    search: Search, batch: Sequence[Attempt], samples: int, *, beside: bool = False, whole: bool = False
) -> bool:
    """Measure `batch` beside the original; tells whether there was the time for it.

    Where the GPU's memory does not hold all of them at once, fewer are measured beside each other.
    """
    try:
        # What is measured as often as anything ever is has all of its autotuner's configurations.
        narrow = samples < RUNGS[-1]
        before, *results = await time_side_by_side(
            search, batch, samples=samples, beside=beside, whole=whole, narrow=narrow
        )
    except BudgetSpent:
        for attempt in batch:
            if attempt.samples is None and not attempt.decided:
                search.drop(attempt, NOT_FINISHED)
        return False
    crowded = []
    for attempt, result in zip(batch, results, strict=True):
        if result.memory and len(batch) > 1:
            crowded.append(attempt)
        else:
            settle(search, attempt, before, result)
    fewer = len(batch) // 2
    for start in range(0, len(crowded), max(1, fewer)):
        if not await _timed(search, crowded[start : start + fewer], samples, beside=beside, whole=whole):
            return False
    return True


def settle(search: Search, attempt: Attempt, before: Samples, after: Samples) -> None:
    """Take over what was measured of `attempt` and, in the same rounds, of the original."""
    if attempt.trial is not None and attempt.trial.verdict is None:
        return  # it was given up meanwhile
    if after.error and not after.memory:
        search.drop(attempt, after.error, "failed")
        return
    if after.error or before.error:
        search.fail(attempt, after.error or before.error or "")
        return
    after, _ = charged(before, after)
    attempt.settle_beside(before, after, search.judge)
    attempt.timed_s = search.spent_s
    search.remember(attempt, "timed")
