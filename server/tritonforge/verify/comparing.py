"""Runs the inputs of a check on both sides, over as many lanes as the worker has, until one shows a difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

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
from tritonforge.verify.inputs import Variation
from tritonforge.verify.judgement import Tried
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import form_of

DEVICE = Limits(seconds=120.0, memory_bytes=64 << 30)
"""A process that uses a GPU maps far more memory than it fills."""
_FIRST = 2
"""Inputs that run before the others are spread over lanes: most wrong candidates fail on these."""
_MOST = 24
"""Inputs of one job, whose time is limited."""


@dataclass(frozen=True)
class Planned:
    """An input with its place in the check; `candidate_call` is the same input as the candidate takes it."""

    place: Place
    variation: Variation
    candidate_call: Call | None = None


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

    async def run(self, planned: Sequence[Planned], precision: Precision | None = None) -> Ran:
        """Run inputs of one kind, in their order, and return what happened up to the first that the candidate fails on.

        Args:
            planned: the inputs.
            precision: the original's, as interpreted runs told it, for inputs that run on the GPU.

        Raises:
            JobError: when the job fails, for a fault of either side.
        """
        if planned and planned[0].place.where == "device":
            return await self._run_on_device(planned, precision)
        ran = await self._run(planned[:_FIRST])
        rest = planned[_FIRST:]
        if rest and not ran.failed:
            jobs = max(1, self.worker.hello.lanes)
            jobs *= -(-len(rest) // (jobs * _MOST))
            await self._spread([rest[job::jobs] for job in range(min(jobs, len(rest)))], ran)
        return ran

    async def _spread(self, shares: Sequence[Sequence[Planned]], ran: Ran) -> None:
        tasks = [asyncio.create_task(self._run(share)) for share in shares]
        try:
            for done in asyncio.as_completed(tasks):
                ran.add(await done)
                if ran.failed:
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        ran.tried.sort(key=lambda one: one.place)

    async def _run_on_device(self, planned: Sequence[Planned], precision: Precision | None) -> Ran:
        request = CompareOnDevice(
            self.original,
            self.candidate,
            tuple(one.variation.call for one in planned),
            self.tolerance,
            reference=self.reference,
            precision=precision,
        )
        await self._compile_ahead([one.variation.call for one in planned])
        return _ran(planned, await self.worker.run(request, limits=DEVICE))

    async def _compile_ahead(self, calls: Sequence[Call]) -> None:
        """Compile what the GPU is going to run, side by side: there, each kernel would wait for the one before it."""
        if not self.arch or self.worker.hello.lanes < 2:
            return
        forms = {form_of(call): call for call in calls}.values()
        wanted = [
            self.worker.run(Compile(program, call, self.arch, artefacts=()))
            for program in (self.original, self.candidate)
            for call in forms
        ]
        # What does not compile shows where it runs.
        for outcome in await asyncio.gather(*wanted, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, JobError):
                raise outcome

    async def _run(self, planned: Sequence[Planned]) -> Ran:
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
        )
        return _ran(planned, await self.worker.run(request))


def _ran(planned: Sequence[Planned], result: CompareResult) -> Ran:
    tried = [Tried(one.variation, o, one.place) for one, o in zip(planned, result.outcomes, strict=False)]
    return Ran(tried, list(result.checks), list(result.coverage), list(result.notes))
