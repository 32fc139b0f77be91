"""One candidate's way through the gate, from what costs least to what costs most."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.jobs import JobError
from tritonforge.verify.comparing import Comparer, Planned
from tritonforge.verify.direct import direct_variations
from tritonforge.verify.direct_kernels import Pair, pairs
from tritonforge.verify.direct_meaning import other_meaning
from tritonforge.verify.growing import alike, changes_hosts, launched_for, may_stay_behind, same_grids, stays_behind
from tritonforge.verify.honesty import covered, folded, joined, never_ran
from tritonforge.verify.inputs import Variation
from tritonforge.verify.judgement import PASSED, Evidence
from tritonforge.verify.launched import Launched, launched
from tritonforge.verify.literals import Literal, new_literals
from tritonforge.verify.originals import Originals
from tritonforge.verify.precision import lower_precision
from tritonforge.verify.reaching import unreached_sentence
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import describe
from tritonforge.verify.tails import crosses_every_size
from tritonforge.verify.texts import broken, without_masks

DIRECTLY = "kernels compared directly"
LEAST_INPUTS = 2
"""A candidate passes only when at least this many inputs of each call could be compared."""
ON_DEVICE = 16
"""Inputs of each call that run on the GPU as well."""
_FIRST_ON_DEVICE = 8
"""Of them, those that refuse most."""


@dataclass
class Checking:
    """The state of one check. `tile`: 0 as long as the launches have not said it."""

    originals: Originals
    candidate: Program
    candidate_kernel: Kernel | None
    tile: int
    evidence: Evidence
    comparer: Comparer
    before: Launched = field(default_factory=lambda: Launched(()))
    after: Launched = field(default_factory=lambda: Launched(()))
    unreached: frozenset[Literal] | None = None
    """The candidate's new numbers that no input of any call so far crosses."""

    async def run(self, first: Place | None) -> None:
        """Go through every phase until something is wrong; `first` is the input to begin with."""
        self.originals.wake_gpu()
        await self._check_source()
        for phase, step in self._phases(first):
            if self.evidence.over:
                return
            with self._timed(phase):
                await step()

    def _phases(self, first: Place | None) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        yield "compile", self._compile
        if first is not None:
            yield "replayed", partial(self._again, first)
        for number, _ in enumerate(self.originals.calls):
            yield "compare", partial(self._through_host, number)
        yield "grids", self._compare_grids
        yield "directly", self._directly
        if self.evidence.on_device:
            for number, _ in enumerate(self.originals.calls):
                yield "on the GPU", partial(self._on_device, number)
        yield "source", self._check_what_ran

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - started
            self.evidence.seconds[phase] = self.evidence.seconds.get(phase, 0.0) + taken

    async def _check_source(self) -> None:
        # Here and below beside the event loop: an editor goes on asking while a large file is analysed.
        with self._timed("source"):
            reason = await asyncio.to_thread(broken, self.originals.program, self.candidate, self.originals.calls)
        self.evidence.made["source rules"] = f"failed: {reason}" if reason else PASSED
        self.evidence.refused = reason

    async def _compile(self) -> None:
        """Compile both sides and compare their precision; says nothing without an architecture."""
        arch = self.originals.arch
        if not arch:
            self.evidence.made["precision"] = "skipped: compiled for no architecture"
            return
        self.before = await self.originals.launched()
        try:
            self.after = await launched(self.originals.worker, self.candidate, self.originals.calls, arch)
        except JobError as error:
            if error.kind not in {"user-error", "compile-error"}:
                raise
            self._refuse(f"the candidate cannot be called as the original is: {error.message}", "results")
            return
        self.tile = self.tile or max(self.before.largest_tile, self.after.largest_tile)
        if self.before.error:
            why = f"skipped: the original does not compile for {arch}: {self.before.error}"
            self.evidence.made["precision"] = why
        elif self.after.error:
            self._refuse(f"the candidate does not compile for {arch}: {self.after.error}", "results")
        else:
            mine = self.before.attributes(self.originals.program)
            theirs = self.after.attributes(self.candidate)
            found = (lower_precision(one, other) for one, other in zip(mine, theirs, strict=True))
            reason = next((one for one in found if one), "")
            self.evidence.made["precision"] = PASSED
            if reason:
                self._refuse(reason, "precision")
                self.evidence.lower_precision = True

    async def _compare_grids(self) -> None:
        """Refuse a grid that stops growing past the recorded sizes, where host code was edited and little else."""
        originals = self.originals
        if not originals.arch or not changes_hosts(originals.program, self.candidate):
            return
        if may_stay_behind(self.candidate):
            return
        for number, (mine, theirs) in enumerate(zip(self.before.compiled, self.after.compiled, strict=True)):
            if not (alike(mine, theirs) and same_grids(mine, theirs)):
                continue
            grown = await originals.larger(number)
            if grown is None:
                continue
            found = await launched_for(originals.worker, self.candidate, grown.call, originals.arch)
            if found is None:
                self._refuse(f"the candidate does not take {describe(grown.call)}, as the original does", "results")
                return
            if reason := stays_behind(grown, found):
                self._refuse(reason, "results")
                return

    def _refuse(self, reason: str, check: str) -> None:
        self.evidence.refused = reason
        self.evidence.made[check] = f"failed: {reason}"

    async def _again(self, first: Place) -> None:
        """Run one input alone, before everything else; one that there is not is passed over."""
        if first.where == "direct":
            pairs_there = await asyncio.to_thread(lambda: self._pairs)
            planned = await self._direct_plan(first.call) if first.call < len(pairs_there) else []
        elif first.call < len(self.originals.calls):
            usual = await self.originals.first_inputs(first.call, self.tile or 64)
            known = first.where == "call" and first.index < len(usual)
            planned = _through_host(first.call, usual) if known else await self._plan(first.call)
            if first.where == "device":
                planned = self._for_device(planned, first.call)
        else:
            planned = []
        await self._compare([one for one in planned if one.place == first])

    async def _plan(self, number: int) -> list[Planned]:
        found = await self.originals.inputs(number, self.tile or 64)
        self.evidence.skipped += [one for one in found.skipped if one not in self.evidence.skipped]
        literals = new_literals(self.originals.program, self.candidate)
        more = await self.originals.reaching(number, self.tile or 64, literals)
        self.unreached = more.unreached if self.unreached is None else self.unreached & more.unreached
        return _through_host(number, (*found.variations, *more.variations))

    async def _compare(self, planned: Sequence[Planned]) -> None:
        """Run what was not run yet."""
        known = {one.place for one in self.evidence.tried}
        fresh = [one for one in planned if one.place not in known]
        ran = await self.comparer.run(fresh, self.evidence.precision)
        evidence = self.evidence
        evidence.tried += ran.tried
        evidence.notes += ran.notes
        evidence.made = folded(evidence.made, ran.checks)
        evidence.coverage = joined((*evidence.coverage, *ran.coverage))

    async def _through_host(self, number: int) -> None:
        # Most that is wrong fails on the first inputs: only what does not is worth asking the original what it allows.
        first = _through_host(number, await self.originals.first_inputs(number, self.tile or 64))
        await self._compare(first)
        if self.evidence.over:
            return
        planned = await self._plan(number)
        await self._compare(planned)
        if not self.originals.on_device:
            self._need_enough(planned)

    def _need_enough(self, planned: Sequence[Planned]) -> None:
        """Refuse where too few inputs of a call say anything."""
        if self.evidence.over:
            return
        places = {one.place for one in planned}
        own = [one for one in self.evidence.tried if one.place in places]
        if sum(one.outcome.status == "equal" and one.outcome.outputs > 0 for one in own) < LEAST_INPUTS:
            why = next((one.outcome.detail for one in own if one.outcome.detail), "it changes nothing")
            self._refuse(f"too little could be compared: {why}", "results")

    async def _direct_plan(self, number: int) -> list[Planned]:
        """Return the direct launches of one pair of kernels; says why where there are none."""
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
        self.evidence.notes += found.notes
        if found.reason:
            self._say_directly(number, f"skipped: {found.reason}")
            return []
        launches = zip(found.variations, found.candidate_inputs, strict=True)
        return [Planned(Place("direct", number, index), *one) for index, one in enumerate(launches)]

    async def _directly(self) -> None:
        if not await asyncio.to_thread(lambda: self._pairs):
            self.evidence.made[DIRECTLY] = "skipped: it is not known which kernel stands for it"
        for number, pair in enumerate(self._pairs):
            planned = await self._direct_plan(number)
            if not planned:
                continue
            await self._compare(planned)
            here = {one.place for one in planned}
            bad = next((one for one in self.evidence.tried if one.place in here and one.failed), None)
            difference = bad.outcome.difference if bad else None
            if difference and (other := await self._other_meaning(pair, difference.output)):
                self.evidence.tried = [one for one in self.evidence.tried if one.place not in here]
                self._say_directly(number, f"skipped: {other}")
            elif bad:
                self.evidence.made[DIRECTLY] = f"failed: {bad.outcome.detail} ({bad.variation.about})"
                return
            else:
                self._say_directly(number, PASSED)

    def _say_directly(self, number: int, said: str) -> None:
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

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        """The kernels to launch directly; only complete once both sides were compiled."""
        kernel, original = self.originals.kernel, self.originals.program
        if kernel is None or not self.originals.arch:
            return ()
        launches = {"before": self.before.launches, "after": self.after.launches}
        return pairs(original, self.candidate, kernel, self.candidate_kernel, **launches)

    async def _on_device(self, number: int) -> None:
        planned = await self._plan(number)
        there = self._for_device(planned, number)
        await self._compare(there)
        self._need_enough([*planned, *there])

    def _for_device(self, planned: Sequence[Planned], number: int) -> list[Planned]:
        call: Call = replace(self.originals.calls[number], seed=self.evidence.seed + 101, launches=())
        wanted = [one.variation for one in planned] + [Variation(call, "as recorded")]
        there = [Planned(Place("device", number, index), one) for index, one in enumerate(wanted)]
        return _fewer(there, self.evidence.seed)

    async def _check_what_ran(self) -> None:
        """Refuse code that no input ran, and an access that lost its mask where no input shows that it needs none."""
        evidence, original = self.evidence, self.originals.program
        evidence.made["coverage"] = covered(evidence.coverage)
        unseen = await asyncio.to_thread(never_ran, evidence.coverage, original, self.candidate)
        if unseen:
            self._refuse(unseen, "coverage")
            return
        beyond = unreached_sentence(self.unreached or ())
        if beyond:
            self._refuse(beyond, "coverage")
            return
        dropped = await asyncio.to_thread(without_masks, original, self.candidate)
        if dropped and not all(crosses_every_size(call, evidence.tried) for call in self.originals.calls):
            self._refuse(dropped[0].sentence, "source rules")


def _fewer(planned: list[Planned], seed: int) -> list[Planned]:
    """Choose what runs on the GPU: the first, the last, which is as recorded, and others as the seed says.

    All of them ran in the interpreter. Sizes and strides of another kind make the compiler specialise a kernel anew, on
    both sides, so that each input costs seconds there.
    """
    if len(planned) <= ON_DEVICE:
        return planned
    between = range(_FIRST_ON_DEVICE, len(planned) - 1)
    chosen = np.random.default_rng(seed).choice(between, ON_DEVICE - _FIRST_ON_DEVICE - 1, replace=False)
    return [*planned[:_FIRST_ON_DEVICE], *(planned[at] for at in sorted(chosen)), planned[-1]]


def _through_host(number: int, variations: Sequence[Variation]) -> list[Planned]:
    return [Planned(Place("call", number, index), one) for index, one in enumerate(variations)]
