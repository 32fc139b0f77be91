"""One candidate's way through the gate, from what costs least to what costs most."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.messages import Precision, Program
from tritonforge.jobs import JobError
from tritonforge.jobs.together import ended
from tritonforge.verify.comparing import Comparer, Ran, keep
from tritonforge.verify.directly import Directly
from tritonforge.verify.growing import alike, changes_hosts, launched_for, may_stay_behind, same_grids, stays_behind
from tritonforge.verify.honesty import covered, never_ran
from tritonforge.verify.inputs import RECORDED, Variation
from tritonforge.verify.judgement import PASSED, Evidence, worst
from tritonforge.verify.launched import Launched, launched
from tritonforge.verify.literals import Literal, new_literals
from tritonforge.verify.on_device import OnDevice, beyond_bounds, for_device, surely_on_device, undefined
from tritonforge.verify.once import Once
from tritonforge.verify.originals import Originals
from tritonforge.verify.precision import lower_precision
from tritonforge.verify.reaching import unreached_sentence
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import describe
from tritonforge.verify.sharing import FEW_LANES, FIRST, Planned
from tritonforge.verify.tails import crosses_every_size
from tritonforge.verify.texts import broken, without_masks

LEAST_INPUTS = 2
"""A candidate passes only when at least this many inputs of each call could be compared."""


@dataclass(frozen=True)
class Plan:
    """The inputs of one call, those that the original does not allow, and the new numbers that none of them crosses."""

    planned: tuple[Planned, ...]
    skipped: tuple[tuple[str, str], ...]
    unreached: frozenset[Literal]


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
    _plans: Once[int, Plan] = field(default_factory=Once)
    _there: dict[int, asyncio.Task[OnDevice]] = field(default_factory=dict)
    """What runs on the GPU, for each call with which that was begun."""
    _launching: asyncio.Task[None] | None = None
    _growing: asyncio.Task[str] | None = None
    _told: Precision | None = None
    """The original's precision as the first of a call's inputs told it, until they are run with the others."""
    _compiling: list[asyncio.Task[None]] = field(default_factory=list)
    """What of the original is compiled for the GPU before it is known that it will be asked there."""

    async def run(self, first: Place | None) -> None:
        """Go through every phase until something is wrong; `first` is the input to begin with.

        What says nothing before its turn may run before it: what it says is looked at when all that comes first agrees,
        so that a verdict does not depend on what is there sooner.
        """
        self.originals.wake_gpu()
        await self._check_source()
        if self._many_lanes and not self.evidence.over:
            # On few lanes what is asked of the original would hold up a candidate's first inputs, on which most that is
            # wrong fails. There it is asked once these agree.
            self.originals.prepare()
        try:
            for phase, step in self._phases(first):
                if self.evidence.over:
                    return
                with self._timed(phase):
                    await step()
        finally:
            begun = (*self._there.values(), *self._compiling, self._launching, self._growing)
            await ended(task for task in begun if task is not None)

    @property
    def _many_lanes(self) -> bool:
        return self.originals.worker.hello.lanes > FEW_LANES

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
        compiling = asyncio.ensure_future(launched(self.originals.worker, self.candidate, self.originals.calls, arch))
        try:
            self.before = await self.originals.launched()
            self.after = await compiling
        except JobError as error:
            if not self.originals.is_launched or error.kind not in {"user-error", "compile-error"}:
                raise
            self._refuse(f"the candidate cannot be called as the original is: {error.message}", "results")
            return
        finally:
            await ended([compiling])
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
        reason = await (self._growing or self._stays_behind())
        if reason:
            self._refuse(reason, "results")

    async def _stays_behind(self) -> str:
        """Say where a grid stops growing past the recorded sizes, where host code was edited and little else."""
        originals = self.originals
        if not originals.arch or not changes_hosts(originals.program, self.candidate):
            return ""
        if may_stay_behind(self.candidate):
            return ""
        for number, (mine, theirs) in enumerate(zip(self.before.compiled, self.after.compiled, strict=True)):
            if not (alike(mine, theirs) and same_grids(mine, theirs)):
                continue
            grown = await originals.larger(number)
            if grown is None:
                continue
            found = await launched_for(originals.worker, self.candidate, grown.call, originals.arch)
            if found is None:
                return f"the candidate does not take {describe(grown.call)}, as the original does"
            if reason := stays_behind(grown, found):
                return reason
        return ""

    def _refuse(self, reason: str, check: str) -> None:
        self.evidence.refused = reason
        self.evidence.made[check] = f"failed: {reason}"

    async def _again(self, first: Place) -> None:
        """Run one input alone, before everything else; one that there is not is passed over."""
        if first.where == "direct":
            planned: Sequence[Planned] = ()
            if first.call < len(await self._direct.pairs()):
                found = await self._direct.plan(first.call)
                planned = found.planned
                self.evidence.notes += found.notes
        elif first.call < len(self.originals.calls):
            usual = await self.originals.first_inputs(first.call, self.tile or 64)
            known = first.where == "call" and first.index < len(usual)
            planned = await self._through(first.call, usual) if known else self._noted(await self._plan(first.call))
            if first.where == "device":
                planned = self._for_device(planned, first.call)
        else:
            planned = ()
        await self._compare([one for one in planned if one.place == first])

    async def _through(self, number: int, variations: Sequence[Variation]) -> tuple[Planned, ...]:
        weights = await self.originals.weigh(number, [one.call for one in variations])
        made, complete = await self.originals.may_contradict(number)
        return tuple(
            Planned(
                Place("call", number, index),
                one,
                weight=weight,
                made=made and not one.about.startswith(RECORDED),
                complete=complete,
            )
            for index, (one, weight) in enumerate(zip(variations, weights, strict=True))
        )

    async def _plan(self, number: int) -> Plan:
        return await self._plans.get(number, partial(self._make_plan, number))

    async def _make_plan(self, number: int) -> Plan:
        tile = self.tile or 64
        found = await self.originals.inputs(number, tile)
        more = await self.originals.reaching(number, tile, self._literals)
        planned = await self._through(number, (*found.variations, *more.variations))
        return Plan(planned, found.skipped, more.unreached)

    @cached_property
    def _literals(self) -> tuple[Literal, ...]:
        return new_literals(self.originals.program, self.candidate)

    def _noted(self, plan: Plan) -> tuple[Planned, ...]:
        """Note what a plan leaves out, once it is gone through, and return its inputs."""
        self.evidence.skipped += [one for one in plan.skipped if one not in self.evidence.skipped]
        self.unreached = plan.unreached if self.unreached is None else self.unreached & plan.unreached
        return plan.planned

    async def _compare(self, planned: Sequence[Planned]) -> None:
        """Run what was not run yet."""
        self._keep(await self.comparer.run(self.evidence.fresh(planned), self.evidence.precision))

    def _keep(self, ran: Ran) -> None:
        keep(self.evidence, ran)
        for one in ran.tried:
            if one.place.where == "call" and one.outcome.operations:
                self.originals.note_operations(one.variation.call, one.outcome.operations)

    async def _through_host(self, number: int) -> None:
        # Most that is wrong fails on the first inputs: only what does not is worth asking the original what it allows.
        usual = await self._through(number, await self.originals.first_inputs(number, self.tile or 64))
        first = self.evidence.fresh(usual)[:FIRST]
        if not self._many_lanes:
            self._keep(await self.comparer.run(first, first=len(first)))
        elif await self._fails_quickly(number, usual, first):
            return
        if self.evidence.over:
            return
        left = len(self.evidence.fresh(first))
        if self.originals.knows_inputs(number, self.tile or 64, self._literals):
            plan = await self._plan(number)
            ran = await self.comparer.run(self.evidence.fresh(plan.planned), first=left)
            self._keep(ran)
            if ran.failing is None or ran.failing.index >= len(usual):
                self._noted(plan)
        elif self._many_lanes:
            await self._while_asking(number, usual, left)
        else:
            await self._compare(usual)
            if not self.evidence.over:
                await self._compare(self._noted(await self._plan(number)))
        if not self.evidence.over:
            await self._after_host(number)

    async def _fails_quickly(self, number: int, usual: Sequence[Planned], first: Sequence[Planned]) -> bool:
        """Tell whether the candidate fails on its first inputs; if not, begin with what runs beside the others."""
        if self.evidence.on_device:
            there = surely_on_device(usual, self.originals.calls[number], self.evidence.seed)
            self._compiling.append(asyncio.create_task(self.originals.compile_ahead(there)))
        ran = await self.comparer.quickly(first)
        if ran.failing is not None:
            self._keep(ran)
            return True
        # What leads a job tells the original's precision, and these are one job when they run once more.
        self._told = ran.tried[0].outcome.precision if ran.tried else None
        # It stays within its buffers there, so that it may run on the GPU beside what is still to be interpreted.
        self._begin(number)
        return False

    async def _after_host(self, number: int) -> None:
        if not self.originals.on_device:
            self._need_enough((await self._plan(number)).planned)
        self._begin(number)

    async def _while_asking(self, number: int, usual: Sequence[Planned], first: int) -> None:
        """Run the usual inputs on some lanes while the original is asked about others, then these."""
        lanes = self.comparer.lanes
        half = max(1, lanes - lanes // 2)
        early = asyncio.ensure_future(self.comparer.run(self.evidence.fresh(usual), lanes=half, first=first))
        later = asyncio.ensure_future(self._run_others(number, usual))
        try:
            self._keep(await early)
            if not self.evidence.over:
                self._noted(await self._plan(number))
                self._keep(await later)
        finally:
            await ended((early, later))

    async def _run_others(self, number: int, usual: Sequence[Planned]) -> Ran:
        places = {one.place for one in usual}
        planned = (await self._plan(number)).planned
        return await self.comparer.run(self.evidence.fresh([one for one in planned if one.place not in places]))

    def _begin(self, number: int) -> None:
        """Begin with what comes after the interpreted inputs of a call, where that was not done.

        On few lanes only the GPU is free for it.
        """
        if self.evidence.on_device and number not in self._there:
            self._there[number] = asyncio.create_task(self._run_on_device(number))
        if self._many_lanes and self._launching is None:
            self._launching = asyncio.create_task(self._direct.launch())
            self._growing = asyncio.create_task(self._stays_behind())

    def _need_enough(self, planned: Sequence[Planned]) -> None:
        """Refuse where too few inputs of a call say anything."""
        if self.evidence.over:
            return
        places = {one.place for one in planned}
        own = [one for one in self.evidence.tried if one.place in places]
        if sum(one.outcome.status == "equal" and one.outcome.outputs > 0 for one in own) < LEAST_INPUTS:
            why = next((one.outcome.detail for one in own if one.outcome.detail), "it changes nothing")
            self._refuse(f"too little could be compared: {why}", "results")

    @cached_property
    def _direct(self) -> Directly:
        """The direct launches; only complete once both sides were compiled."""
        return Directly(
            self.originals,
            self.candidate,
            self.candidate_kernel,
            self.before,
            self.after,
            self.evidence,
            self.comparer,
        )

    async def _directly(self) -> None:
        if self._launching is not None:
            await self._launching
        await self._direct.compare()

    async def _run_on_device(self, number: int) -> OnDevice:
        """Run what a call runs on the GPU, with what the interpreter told of the original's precision by then."""
        there = self.evidence.fresh(self._for_device((await self._plan(number)).planned, number))
        precision = worst(self.evidence.precision or self._told, self.originals.precision)
        return OnDevice(await self.comparer.run(there, precision, thorough=False), precision)

    async def _on_device(self, number: int) -> None:
        self._begin(number)
        planned = (await self._plan(number)).planned
        several = undefined(self.evidence, number, planned)
        if several:
            self.evidence.notes.append(
                f"{len(several)} inputs did not run on the GPU: programs of the original write different values there "
                "to one element"
            )
        beyond = beyond_bounds(self.evidence, number) | several
        early: OnDevice | None = None
        # Beyond its bounds even the original may break the GPU's context.
        with contextlib.suppress(*([JobError] if beyond else [])):
            early = await self._there[number]
        there = [one for one in self._for_device(planned, number) if one.place.index not in beyond]
        self.originals.note_precision(self.evidence.precision)
        if early is not None and early.stands(self.evidence.precision):
            self._keep(replace(early.ran, tried=[one for one in early.ran.tried if one.place.index not in beyond]))
        else:
            await self._compare(there)
        self._need_enough([*planned, *there])

    def _for_device(self, planned: Sequence[Planned], number: int) -> list[Planned]:
        call, seed = self.originals.calls[number], self.evidence.seed
        return for_device(planned, number, call, seed, autotuned=self.after.autotuned)

    async def _check_what_ran(self) -> None:
        """Refuse code that no input ran, and an access that lost its mask where no input shows that it needs none."""
        evidence, original = self.evidence, self.originals.program
        evidence.made["coverage"] = covered(evidence.coverage, self.candidate)
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
