"""Runs the inputs of a check on both sides, over as many lanes as the worker has, until one shows a difference.

What is said of inputs does not depend on which lane is there first: the first in the order of the plan that the
candidate fails on is told, with what was seen up to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    CompareResult,
    Compile,
    Limits,
    Precision,
    Program,
    Reference,
    Tolerance,
)
from tritonforge.jobs import JobError, Worker
from tritonforge.jobs.together import all_of, ended
from tritonforge.verify.honesty import folded, joined
from tritonforge.verify.judgement import Evidence, Tried
from tritonforge.verify.once import Once
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import form_of
from tritonforge.verify.sharing import Planned, lanes_of, shares

DEVICE = Limits(seconds=120.0, memory_bytes=64 << 30)
"""A process that uses a GPU maps far more memory than it fills."""
_OF_RUNS_AGAIN = frozenset(["program order", "kept results"])
"""Checks of a job for which a candidate runs again once it has agreed on all of the job's inputs."""


@dataclass
class Ran:
    """What happened on some inputs, and what was seen of how results came about (see `CompareResult`)."""

    tried: list[Tried] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    coverage: list[KernelCoverage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the candidate failed on one of them."""
        return any(one.failed for one in self.tried)

    def add(self, other: Ran) -> None:
        """Take over what happened on others."""
        self.tried += other.tried
        self.checks += other.checks
        self.coverage += other.coverage
        self.notes += other.notes

    @property
    def failing(self) -> Place | None:
        """The first place that the candidate failed at."""
        return min((one.place for one in self.tried if one.failed), default=None)


@dataclass(frozen=True)
class Comparer:
    """Runs inputs on an original and a candidate."""

    worker: Worker
    original: Program
    candidate: Program
    tolerance: Tolerance
    reference: Reference | None = None
    arch: str = ""
    """Of the GPU, where one is: kernels are compiled for it on all lanes before they run there."""
    on_device: bool = False
    ahead: Once[object, None] = field(default_factory=Once)
    """Forms of inputs that the original was compiled for."""

    @property
    def lanes(self) -> int:
        """On how many lanes inputs run side by side."""
        return lanes_of(self.worker.hello.lanes, on_device=self.on_device)

    async def quickly(self, planned: Sequence[Planned]) -> Ran:
        """Run the few inputs that most wrong candidates fail on at once, each on a lane of its own.

        What agrees is not run again, as it is by `run`, so that these have to be run once more with the others.
        """
        return await self._spread([[one] for one in planned], again=False)

    async def run(
        self,
        planned: Sequence[Planned],
        precision: Precision | None = None,
        *,
        lanes: int | None = None,
        first: int = 0,
        thorough: bool = True,
    ) -> Ran:
        """Run inputs of one kind, in their order, and return what happened up to the first that the candidate fails on.

        Args:
            planned: the inputs.
            precision: the original's, as interpreted runs told it, for inputs that run on the GPU.
            lanes: on how many lanes at most; None: on all.
            first: so many of them, the first, are one job.
            thorough: for inputs that run on the GPU, as in `CompareOnDevice`.

        Raises:
            JobError: when the job fails, for a fault of either side.
        """
        if planned and planned[0].place.where == "device":
            return await self._run_on_device(planned, precision, thorough=thorough)
        others = max(1, (lanes or self.lanes) - (1 if first else 0))
        return await self._spread([planned[:first], *shares(planned[first:], others)], leads=first > 0)

    async def _spread(self, jobs: Sequence[Sequence[Planned]], *, again: bool = True, leads: bool = False) -> Ran:
        """Run jobs side by side; where one fails, those that may fail at an earlier place are waited for.

        `leads`: the first job goes before the others as far as is said.
        """
        first = {asyncio.ensure_future(self._run(job, again=again)): job[0].place for job in jobs if job}
        left = set(first)
        found: dict[Place, Ran] = {}
        failing: Place | None = None
        try:
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                errors = [error for task in done if (error := task.exception()) is not None]
                found |= {first[task]: task.result() for task in done if task.exception() is None}
                failing = min((at for ran in found.values() if (at := ran.failing) is not None), default=None)
                if errors and failing is None:
                    raise errors[0]
                left = {task for task in left if failing is None or first[task] < failing}
        finally:
            await ended(first)
        lead = jobs[0][0].place if leads else None
        return _up_to(failing, {place: found[place] for place in sorted(found)}, lead)

    async def _run_on_device(self, planned: Sequence[Planned], precision: Precision | None, *, thorough: bool) -> Ran:
        request = CompareOnDevice(
            self.original,
            self.candidate,
            tuple(one.variation.call for one in planned),
            self.tolerance,
            reference=self.reference,
            precision=precision,
            thorough=thorough,
            made=_made(planned),
            complete=all(one.complete for one in planned),
            turns=tuple(one.turn for one in planned),
        )
        await self._compile_ahead(planned)
        return _ran(planned, await self.worker.run(request, limits=DEVICE))

    async def _compile_ahead(self, planned: Sequence[Planned]) -> None:
        calls, mine = [one.variation.call for one in planned], Once[object, None]()
        turns = [max(one.turn, 0) for one in planned]  # what is chosen was compiled when it was timed
        await all_of(
            (
                compile_ahead(self.worker, self.original, calls, self.arch, known=self.ahead),
                compile_ahead(self.worker, self.candidate, calls, self.arch, known=mine, turns=turns),
            )
        )

    async def _run(self, planned: Sequence[Planned], *, again: bool) -> Ran:
        if not planned:
            return Ran()
        direct = planned[0].place.where == "direct"
        request = Compare(
            self.original,
            self.candidate,
            tuple(one.variation.call for one in planned),
            self.tolerance,
            candidate_inputs=tuple(one.candidate_call for one in planned if one.candidate_call is not None),
            # A reference takes what the host function takes, which a kernel does not.
            reference=None if direct else self.reference,
            again=again,
            made=_made(planned),
            complete=all(one.complete for one in planned),
        )
        return _ran(planned, await self.worker.run(request))


async def compile_ahead(
    worker: Worker,
    program: Program,
    calls: Sequence[Call],
    arch: str,
    *,
    known: Once[object, None],
    priority: int = 0,
    turns: Sequence[int] = (),
) -> None:
    """Compile what a GPU is going to run, side by side: there, each kernel would wait for the one before it.

    Args:
        worker: where it is compiled; with a single lane nothing is.
        program: what is going to run.
        calls: its inputs.
        arch: of the GPU; empty: nothing is compiled.
        known: forms of inputs that the program was compiled for.
        priority: of the jobs.
        turns: which configuration autotuners use on each input; empty: their first.
    """
    if not arch or worker.hello.lanes < 2:
        return

    async def compiled(call: Call, turn: int) -> None:
        with contextlib.suppress(JobError):  # what does not compile shows where it runs
            await worker.run(Compile(program, call, arch, artefacts=(), turn=turn), priority=priority)

    forms = {(form_of(call), turn): call for call, turn in zip(calls, turns or [0] * len(calls), strict=True)}
    await all_of(known.get(form, partial(compiled, call, form[1])) for form, call in forms.items())


def keep(evidence: Evidence, ran: Ran) -> None:
    """Add what happened on some inputs to the evidence of a check."""
    evidence.tried += ran.tried
    evidence.notes += ran.notes
    evidence.made = folded(evidence.made, ran.checks)
    evidence.coverage = joined((*evidence.coverage, *ran.coverage))


def _up_to(failing: Place | None, runs: Mapping[Place, Ran], lead: Place | None) -> Ran:
    """Put together what several jobs saw, up to the place that is told, as one job that ends there sees it.

    `runs`: by the first place of each job; that of `lead` was over before the others began, as far as is said.
    """
    whole = Ran()
    for first, one in runs.items():
        if failing is None or one.failing == failing or (first == lead and one.failing is None):
            whole.add(one)
            continue
        before = [tried for tried in one.tried if tried.place < failing]
        if before and one.failing is None:
            checks = [check for check in one.checks if check[0] not in _OF_RUNS_AGAIN]
            whole.add(replace(one, tried=before, checks=checks))
        else:  # it was there sooner by chance, or says of its checks what the one that is told may not
            whole.tried += before
    whole.tried.sort(key=lambda one: one.place)
    return whole


def _made(planned: Sequence[Planned]) -> tuple[int, ...]:
    return tuple(index for index, one in enumerate(planned) if one.made)


def _ran(planned: Sequence[Planned], result: CompareResult) -> Ran:
    tried = [Tried(one.variation, o, one.place) for one, o in zip(planned, result.outcomes, strict=False)]
    return Ran(tried, list(result.checks), list(result.coverage), list(result.notes))
