"""Runs the inputs of a check on both sides, over as many lanes as the worker has, until one shows a difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, Limits, Program, Reference, Tolerance
from tritonforge.jobs import Worker
from tritonforge.verify.inputs import Variation
from tritonforge.verify.judgement import Tried
from tritonforge.verify.replaying import Place

DEVICE = Limits(seconds=120.0, memory_bytes=64 << 30)
"""A process that uses a GPU maps far more memory than it fills."""
_FIRST = 2
"""Inputs that run before the others are spread over lanes: most wrong candidates fail on these."""


@dataclass(frozen=True)
class Planned:
    """An input with its place in the check; `candidate_call` is the same input as the candidate takes it."""

    place: Place
    variation: Variation
    candidate_call: Call | None = None


@dataclass(frozen=True)
class Comparer:
    """Runs inputs on an original and a candidate."""

    worker: Worker
    original: Program
    candidate: Program
    tolerance: Tolerance
    reference: Reference | None = None

    async def run(self, planned: Sequence[Planned]) -> list[Tried]:
        """Run inputs of one kind, in their order, and return what happened up to the first that the candidate fails on.

        Raises:
            JobError: when the job fails, for a fault of either side.
        """
        lanes = 1 if any(one.place.where == "device" for one in planned) else max(1, self.worker.hello.lanes)
        if lanes == 1 or len(planned) <= _FIRST:
            return await self._run(planned)
        tried = await self._run(planned[:_FIRST])
        if any(one.failed for one in tried):
            return tried
        rest = planned[_FIRST:]
        return tried + await self._spread([rest[lane::lanes] for lane in range(min(lanes, len(rest)))])

    async def _spread(self, shares: Sequence[Sequence[Planned]]) -> list[Tried]:
        tasks = [asyncio.create_task(self._run(share)) for share in shares]
        tried: list[Tried] = []
        try:
            for done in asyncio.as_completed(tasks):
                tried += await done
                if any(one.failed for one in tried):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return sorted(tried, key=lambda one: one.place)

    async def _run(self, planned: Sequence[Planned]) -> list[Tried]:
        if not planned:
            return []
        inputs = tuple(one.variation.call for one in planned)
        if planned[0].place.where == "device":
            result = await self.worker.run(
                CompareOnDevice(self.original, self.candidate, inputs, self.tolerance, reference=self.reference),
                limits=DEVICE,
            )
        else:
            others = tuple(one.candidate_call for one in planned if one.candidate_call is not None)
            direct = planned[0].place.where == "direct"
            result = await self.worker.run(
                Compare(
                    self.original,
                    self.candidate,
                    inputs,
                    self.tolerance,
                    candidate_inputs=others,
                    # A reference takes what the host function takes, which a kernel does not.
                    reference=None if direct else self.reference,
                )
            )
        return [Tried(one.variation, o, one.place) for one, o in zip(planned, result.outcomes, strict=False)]
