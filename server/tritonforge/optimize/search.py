"""The state of one search: the original, every attempt, the best so far; a result can be built at any moment."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Literal, TypeVar

from tritonforge.analysis import analyze
from tritonforge.diagnosis.assessment import Assessed, Yardstick, assess, with_time
from tritonforge.domain.candidate import Candidate, Suggestion, Trial
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, RecordedLaunch, Scalar
from tritonforge.domain.messages import Program
from tritonforge.domain.results import OptimizeResult
from tritonforge.jobs.session import Session
from tritonforge.optimize.correction import STRUCTURE
from tritonforge.optimize.memory import Memory
from tritonforge.optimize.points import point_of
from tritonforge.prediction import disagreement
from tritonforge.profiling.measuring import Samples
from tritonforge.profiling.statistics import ratio_interval, summarise
from tritonforge.rewrite import Engine, Thinker
from tritonforge.rewrite.rules.launch_parameters import NAME
from tritonforge.store.tried import Outcome, TriedVersion
from tritonforge.workload.subject import Subject

LAUNCH_PARAMETERS = NAME
"""The rewrite whose parameters are values of the launch."""

Stage = Literal["assess", "propose", "compile", "measure", "verify", "confirm", "think"]

NOT_TRIED = "not tried: budget spent"
NOT_FINISHED = "not finished: budget spent"
NOT_MEASURED = "predicted to be slower; not measured"
ORIGINAL_S = 60.0
"""Seconds that the original alone is given, however small the budget is: nothing can be said without its time."""
SEEN_SLOWER = 0.03
"""What few samples, or the model, may say a launch is slower by without its being so."""

_NUMBER = re.compile(r"\d[\d.,]*")

T = TypeVar("T")


class BudgetSpent(Exception):
    """The budget ended while something was under way; that was cancelled."""


@dataclass(frozen=True)
class Step:
    """What the search is doing, for a progress display. `best_speedup` is that of the best verified version so far.

    `thinking` says how far engines are that take their time: rounds, tokens, cost; empty without any. `round` is the
    number of the round that proposes and measures, 0 before the first; the gate may still judge what the round before
    found.
    """

    stage: Stage
    detail: str
    done: int = 0
    total: int = 0
    best_speedup: float | None = None
    thinking: str = ""
    round: int = 0


@dataclass
class Attempt:
    """A version of the source on its way through the search; `trial` is set once its fate is known."""

    candidate: Candidate
    text: str
    assessed: tuple[Assessed, ...] = ()
    samples: Samples | None = None
    trial: Trial | None = None
    timed_s: float | None = None
    """Seconds into the search when its time was known, predicted or measured."""
    speedup: tuple[float, float, float] | None = None
    """The original's time over its own, with the 95 % interval, of the same rounds."""
    before: Samples | None = None
    """The original's samples of the rounds in which it was measured."""
    at_length: bool = False
    """Whether it was measured with as many repetitions as a search ever takes, and whole calls too."""
    known_us: float | None = None
    """Its time by an earlier run's speedup and the original's time now, where it was not measured in this run."""
    known_by_launch: Mapping[str, float] = field(default_factory=dict)
    """That time launch by launch, by the launch's id."""
    as_timed: Mapping[str, RecordedLaunch] = field(default_factory=dict)
    """Its launches by their ids as they were timed first: with the configurations that an autotuner chose."""

    @property
    def decided(self) -> bool:
        """Whether its fate is known."""
        return self.trial is not None

    @property
    def passed(self) -> bool:
        """Whether the gate has passed it."""
        return self.trial is not None and self.trial.verdict is not None and self.trial.verdict.accepted

    def time_us(self, *, measured: bool) -> float:
        """Return the time of all its launches together in µs, infinite when it is not known."""
        if measured:
            total = self.samples.total() if self.samples else ()
            known = self.known_us if self.known_us is not None else math.inf
            return median(total) if total else known
        return sum((a.prediction.time_us if a.prediction else math.inf) * a.launch.count for a in self.assessed)

    def times_by_launch(self) -> Mapping[str, float]:
        """Return the measured time of each launch in µs, by its id: of this run, else by an earlier one."""
        if self.samples is None:
            return self.known_by_launch
        return {launch: median(row) for launch, row in self.samples.by_launch.items()}

    def settle(self, samples: Samples, judge: Yardstick | None) -> None:
        """Take measured samples over, and judge its launches by them."""
        self.samples = samples
        rows = list(samples.by_launch.values())
        if not self.as_timed and len(samples.made) == len(self.assessed):
            self.as_timed = {one.launch.id: made for one, made in zip(self.assessed, samples.made, strict=True)}
        if len(rows) == len(self.assessed):
            self.assessed = tuple(
                with_time(one, summarise(row), judge) for one, row in zip(self.assessed, rows, strict=True)
            )

    def settle_beside(
        self, before: Samples, after: Samples, judge: Yardstick | None
    ) -> tuple[float, tuple[float, float]]:
        """Take over what was measured of it and, in the same rounds, of the original; returns its speedup, as kept."""
        self.settle(after, judge)
        speedup, interval = ratio_interval(before.total(), after.total())
        self.speedup = (speedup, *interval)
        self.before = before
        self.known_us = None
        return speedup, interval

    @property
    def first(self) -> Assessed | None:
        """The launch that matters most."""
        return min(self.assessed, key=lambda a: a.launch.rank, default=None)

    @property
    def config(self) -> Config | None:
        """What its launch that matters most is launched with."""
        return self.first.launch.config if self.first else None

    @property
    def compile_error(self) -> str | None:
        """Why one of its launches does not compile, or None."""
        return next((a.compilation.error for a in self.assessed if a.compilation.error), None)

    @property
    def largest_tile(self) -> int:
        """The largest tunable constexpr over its launches."""
        values = [
            value.value
            for one in self.assessed
            for _, value in one.launch.config.constexprs
            if isinstance(value, Scalar) and type(value.value) is int
        ]
        return max(values, default=64)

    def has_wanted_config(self) -> bool:
        """Tell whether its first launch really runs with the parameters that the candidate's title promises."""
        wanted = {
            name: value
            for rewrite, parameters in self.candidate.rewrites
            if rewrite == LAUNCH_PARAMETERS
            for name, value in parameters
        }
        if self.first is None:
            return not wanted
        config = self.first.launch.config
        shown = {name: str(v.value) for name, v in (*config.constexprs, *config.options) if isinstance(v, Scalar)}
        return all(shown.get(name, value) == value for name, value in wanted.items())

    def at_roofline(self, share: float) -> bool:
        """Tell whether every launch reaches `share` of its roofline."""
        places = [a.roofline.fraction or 0.0 if a.roofline else 0.0 for a in self.assessed]
        return bool(places) and min(places) >= share


@dataclass
class Search:
    """Everything one run knows."""

    subject: Subject
    session: Session
    judge: Yardstick | None
    engines: Sequence[Engine]
    budget_s: float
    allow_slower: float
    on_step: Callable[[Step], None]
    started: float = field(default_factory=time.monotonic)
    baseline: Attempt | None = None
    findings: tuple[Finding, ...] = ()
    attempts: dict[str, Attempt] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    best: Attempt | None = None
    """What the search goes on from. The gate may not have judged it yet: it is shown nowhere."""
    kept: list[Attempt] = field(default_factory=list)
    """The versions that were verified and measured at length, each better than the one before."""
    suggestion: Suggestion | None = None
    """What the last of `kept` comes to, by the latest measurement."""
    gained_too_little: float = 0.0
    """The greatest speedup of what is not offered for being too small; 0 where there is none."""
    rounds: int = 0
    reserve_s: float = 0.0
    """Seconds of the budget that the check of the winner in a fresh process is going to need."""
    notes: list[str] = field(default_factory=list)
    thinkers: Sequence[Thinker] = ()
    declined: list[Trial] = field(default_factory=list)
    """What engines proposed and nothing could be made of."""
    turn: int = 0
    """The turn of the original's config that is predicted to be its fastest; 0 where its times are measured."""
    memory: Memory | None = None
    """What earlier runs found out, where anything is kept between runs."""
    overtaken: bool = False
    """Whether a version that others were held against did not stand, so that some went unmeasured for nothing."""
    more_to_propose: bool = False
    """Whether the budget ended while engines still had something to propose."""
    disturbed: bool = False
    """Whether something failed that may not fail another time: then the result is no answer to be kept."""

    @property
    def measured(self) -> bool:
        """Whether times are measured; otherwise they are predicted."""
        return self.session.measures

    @property
    def spent_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.started

    @property
    def left_s(self) -> float:
        """Seconds left of the budget, without those that are reserved."""
        return self.budget_s - self.reserve_s - self.spent_s

    @property
    def original(self) -> Attempt:
        """The original, once it was assessed."""
        if self.baseline is None:
            raise RuntimeError("the original was not assessed yet")
        return self.baseline

    async def within(self, work: Awaitable[T], *, least_s: float = 0.0) -> T:
        """Wait for `work` until the budget ends, `least_s` seconds at least; what it does on a worker ends with it.

        Raises:
            BudgetSpent: when it has not ended by then.
        """
        try:
            async with asyncio.timeout(max(self.left_s, least_s, 0.0)) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise BudgetSpent from None
            raise

    async def within_or_not(self, work: Awaitable[object]) -> bool:
        """Wait for `work` until the budget ends; tells whether it ended before."""
        try:
            await self.within(work)
        except BudgetSpent:
            return False
        return True

    async def assess(self, program: Program, kernel: Kernel, turn: int = 0) -> tuple[Assessed, ...]:
        """Compile the launches that the calls make of `kernel`, or find them as an earlier run compiled them.

        `turn`: which of its configurations an autotuner uses, as in `Compile`.

        Raises:
            JobError: when a call cannot be repeated.
        """
        return await assess(
            self.session,
            program,
            kernel,
            self.subject.calls,
            self.judge,
            pinned=self.subject.pinned,
            earlier=self.memory.compiled if self.memory else None,
            turn=turn,
        )

    def say(self, stage: Stage, detail: str, done: int = 0, total: int = 0) -> None:
        """Report a step."""
        best = self.suggestion.speedup if self.suggestion else None
        thinking = "; ".join(one.status for one in self.thinkers)
        self.on_step(Step(stage, detail, done, total, best, thinking, self.rounds))

    def program(self, attempt: Attempt) -> Program:
        """Return the program that loads `attempt`."""
        return self.subject.program(attempt.text, attempt.candidate.edits)

    def turn_of(self, attempt: Attempt) -> int:
        """Return the turn of the configuration that `attempt` is predicted on, where an autotuner would choose one.

        What sets launch parameters is predicted on those, which come first. Else it is the original's best one, so that
        its own tuning is not credited to a rewrite.
        """
        return 0 if any(name == LAUNCH_PARAMETERS for name, _ in attempt.candidate.rewrites) else self.turn

    def kernel_in(self, text: str) -> Kernel | None:
        """Find the subject's kernel in an edited text: same name, same place among kernels of that name."""
        after = self._named(text)
        return after[self._place] if self._place < len(after) else None

    def _named(self, text: str) -> list[Kernel]:
        return [k for k in analyze(text, self.subject.file).kernels if k.name == self.subject.kernel.name]

    @cached_property
    def _place(self) -> int:
        """The place of the subject's kernel among those of its name: every attempt asks, and the file may be large."""
        before = self._named(self.subject.text)
        return next((i for i, k in enumerate(before) if k.range == self.subject.kernel.range), 0)

    def note(self, *notes: str) -> None:
        """Keep sentences for the reader of the result, each once."""
        self.notes += [note for note in notes if note not in self.notes]

    def note_measuring(self, *notes: str) -> None:
        """Keep what was seen of a measurement, the same once, whatever its numbers were the next time."""
        known = {_NUMBER.sub("#", note) for note in self.notes}
        self.note(*(note for note in notes if _NUMBER.sub("#", note) not in known))

    def note_doubts(self, attempt: Attempt) -> None:
        """Say which measured times of a version are far from what the model expects of it."""
        of = f"{attempt.candidate.title}: " if attempt is not self.baseline else ""
        for one in attempt.assessed:
            if doubt := disagreement(one.prediction, one.case.time.median if one.case.time else None):
                self.note(of + doubt)

    def trial(self, attempt: Attempt, *, reason: str) -> Trial:
        """Describe what became of `attempt`."""
        pairs = list(zip(self.original.assessed, attempt.assessed, strict=False))
        times: Mapping[str, float] | None = None
        if self.measured and (attempt.known_by_launch if attempt.samples is None else not attempt.samples.error):
            times = attempt.times_by_launch()
        elif not self.measured and pairs:
            times = {base.launch.id: one.prediction.time_us for base, one in pairs if one.prediction}
        return Trial(
            candidate=attempt.candidate,
            verdict=None,
            time_us=times or None,
            predictions={base.launch.id: one.prediction for base, one in pairs if one.prediction},
            reason=reason,
            at_s=self.spent_s,
        )

    def drop(self, attempt: Attempt, reason: str, outcome: Outcome = "unfinished") -> None:
        """Give up on `attempt`: that its time was known says more of a search than that others were better later."""
        trial = self.trial(attempt, reason=reason)
        attempt.trial = dataclasses.replace(trial, at_s=attempt.timed_s or trial.at_s)
        self.remember(attempt, outcome)

    def fail(self, attempt: Attempt, reason: str) -> None:
        """Give up on `attempt` for what may be the machine's doing: a limit that was reached, a process that died."""
        self.disturbed = True
        self.drop(attempt, reason)

    def remember(self, attempt: Attempt, outcome: Outcome) -> None:
        """Keep what is known of `attempt` for a later run."""
        if self.memory is None:
            return
        point = point_of(attempt.candidate, self.original.config)
        known = self.memory.find(self.program(attempt))
        trial = attempt.trial or self.trial(attempt, reason="")
        if trial.verdict is None and known is not None:
            trial = dataclasses.replace(trial, verdict=known.trial.verdict)
        values = {name: value for name, value in point.items() if type(value) is int}
        version = TriedVersion(
            "", str(point[STRUCTURE]), values, outcome, trial, attempt.speedup, _facts(attempt.first)
        )
        self.memory.keep(self.program(attempt), version)

    def slower_launch(self, attempt: Attempt) -> str:
        """Return why `attempt` seems unfair to one of the launches, or an empty text; what is confirmed is surer."""
        allowed = 1.0 + max(self.allow_slower, SEEN_SLOWER)
        earlier = attempt.known_by_launch if attempt.known_us is not None and attempt.samples is None else None
        for base, one in zip(self.original.assessed, attempt.assessed, strict=False):
            before = base.case.time_us
            after = one.case.time_us if earlier is None else earlier.get(base.launch.id)
            if before and after and after > before * allowed:
                kind = "measured" if self.measured else "predicted"
                return f"{kind} {after / before:.2f}x slower on launch {base.launch.id} (allowed: {allowed:.2f}x)"
        return ""

    def result(self, stopped_because: str) -> OptimizeResult:
        """Build the result from what is known now."""
        base = self.original
        launches = tuple(dataclasses.replace(a.launch, time_us=a.case.time_us) for a in base.assessed)
        return OptimizeResult(
            kernel=self.subject.kernel,
            target=self.session.info,
            launches=launches,
            baseline_us={a.launch.id: a.case.time_us for a in base.assessed if a.case.time_us is not None},
            provenance="measured" if self.measured else "predicted",
            best=self.suggestion,
            trials=(*(attempt.trial for attempt in self.attempts.values() if attempt.trial), *self.declined),
            bottlenecks=tuple(b for one in (base, *self.kept) if (b := _bottleneck(one)) is not None),
            findings=self.findings,
            baseline_config=base.config,
            stopped_because=stopped_because,
            elapsed_s=self.spent_s,
            notes=tuple(self.notes + self.refusals),
            assessments=tuple(a.assessment for a in base.assessed),
            rooflines={a.launch.id: a.roofline for a in base.assessed if a.roofline},
        )


def _bottleneck(attempt: Attempt) -> Bottleneck | None:
    return attempt.first.bottleneck if attempt.first is not None else None


def _facts(first: Assessed | None) -> Mapping[str, float]:
    if first is None:
        return {}
    resources, occupancy = first.compilation.resources, first.compilation.occupancy
    found: dict[str, float] = {}
    if resources is not None:
        found |= {name: getattr(resources, name) for name in ("registers", "spill_bytes", "shared_bytes")}
    if occupancy is not None:
        found["occupancy"] = occupancy.fraction
    return found
