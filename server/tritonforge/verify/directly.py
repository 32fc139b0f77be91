"""The phase of a check that launches kernels directly: pair by pair, what either understands differently refuses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.messages import Program
from tritonforge.verify.comparing import Comparer, Ran, keep
from tritonforge.verify.direct import direct_variations
from tritonforge.verify.direct_kernels import Pair, pairs
from tritonforge.verify.direct_meaning import other_meaning
from tritonforge.verify.judgement import PASSED, Evidence
from tritonforge.verify.launched import Launched
from tritonforge.verify.once import Once
from tritonforge.verify.originals import Originals
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import all_tensors
from tritonforge.verify.sharing import Planned

DIRECTLY = "kernels compared directly"


@dataclass(frozen=True)
class LaunchedDirectly:
    """The direct launches of one pair of kernels, or the `reason` why there are none, and what happened on them."""

    planned: tuple[Planned, ...]
    notes: tuple[str, ...]
    reason: str
    ran: Ran


@dataclass
class Directly:
    """The direct launches of one check. `before` and `after`: what the calls launch on either side, compiled."""

    originals: Originals
    candidate: Program
    candidate_kernel: Kernel | None
    before: Launched
    after: Launched
    evidence: Evidence
    comparer: Comparer
    _ran: Once[int, LaunchedDirectly] = field(default_factory=Once)

    async def pairs(self) -> tuple[Pair, ...]:
        """Return the kernels to launch."""
        return await asyncio.to_thread(lambda: self._pairs)

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        kernel, original = self.originals.kernel, self.originals.program
        if kernel is None or not self.originals.arch:
            return ()
        launches = {"before": self.before.launches, "after": self.after.launches}
        return pairs(original, self.candidate, kernel, self.candidate_kernel, **launches)

    async def plan(self, number: int) -> LaunchedDirectly:
        """Return the direct launches of one pair of kernels, of which none has run yet."""
        pair = self._pairs[number]
        found = await direct_variations(
            self.originals.worker,
            self.originals.program,
            self.candidate,
            self.before.launches,
            self.after.launches,
            kernel=pair.original,
            candidate_kernel=pair.candidate,
            seed=self.evidence.seed + 401,
        )
        planned = (
            Planned(
                Place("direct", number, index), one, other, sum(tensor.elements for tensor in all_tensors(one.call))
            )
            for index, (one, other) in enumerate(zip(found.variations, found.candidate_inputs, strict=True))
        )
        return LaunchedDirectly(() if found.reason else tuple(planned), found.notes, found.reason, Ran())

    async def _launched(self, number: int) -> LaunchedDirectly:
        return await self._ran.get(number, partial(self._launch, number))

    async def _launch(self, number: int) -> LaunchedDirectly:
        plan = await self.plan(number)
        return replace(plan, ran=await self.comparer.run(self.evidence.fresh(plan.planned)))

    async def launch(self) -> None:
        """Run the launches of every pair up to the first on which they differ, and say nothing yet."""
        for number, _ in enumerate(await self.pairs()):
            if (await self._launched(number)).ran.failing is not None:
                return

    async def compare(self) -> None:
        """Say pair by pair what became of its launches, which run now where they have not."""
        if not await self.pairs():
            self.evidence.made[DIRECTLY] = "skipped: it is not known which kernel stands for it"
        for number, pair in enumerate(self._pairs):
            found = await self._launched(number)
            self.evidence.notes += found.notes
            if found.reason:
                self._say(number, f"skipped: {found.reason}")
            if not found.planned:
                continue
            keep(self.evidence, found.ran)
            here = {one.place for one in found.planned}
            bad = next((one for one in self.evidence.tried if one.place in here and one.failed), None)
            difference = bad.outcome.difference if bad else None
            if difference and (other := await self._other_meaning(pair, difference.output)):
                self.evidence.tried = [one for one in self.evidence.tried if one.place not in here]
                self._say(number, f"skipped: {other}")
            elif bad and bad.outcome.overlapping and not await self.originals.overlaps():
                # Nothing says which of the values stays that the original itself writes to one element.
                self.evidence.tried = [one for one in self.evidence.tried if one.place not in here]
                self._say(number, f"skipped: what the original writes overlaps ({bad.variation.about})")
            elif bad:
                self.evidence.made[DIRECTLY] = f"failed: {bad.outcome.detail} ({bad.variation.about})"
                return
            else:
                self._say(number, PASSED)

    def _say(self, number: int, said: str) -> None:
        """Note what became of one pair of kernels; the check itself speaks of the first, which was asked about."""
        if number == 0:
            self.evidence.made[DIRECTLY] = said
        elif said != PASSED:
            name = self._pairs[number].original.name
            self.evidence.notes.append(
                f"{name}, edited too, was not launched directly: {said.removeprefix('skipped: ')}"
            )

    async def _other_meaning(self, pair: Pair, buffer: str) -> str:
        """Say why what differs in `buffer` says nothing of this candidate after all, empty where it does."""
        through_host = [one for one in self.evidence.tried if one.place.where == "call"]
        # What the original does not take launches nothing, or not all there is.
        agreed = [one.variation.call for one in through_host if one.outcome.status == "equal" and one.outcome.outputs]
        if not agreed:
            return ""
        return await other_meaning(
            self.originals.worker,
            self.originals.program,
            self.candidate,
            agreed[0],
            self.originals.arch,
            kernel=pair.original,
            candidate_kernel=pair.candidate,
            buffer=buffer,
            tolerance=self.comparer.tolerance,
        )
