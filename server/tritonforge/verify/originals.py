"""What is found out about an original once, for all of its candidates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    InputOutcome,
    Limits,
    LookAtGpu,
    Precision,
    Program,
    Runs,
    Tolerance,
)
from tritonforge.jobs import JobError, Worker
from tritonforge.jobs.together import all_of, ended
from tritonforge.verify.asking import Asked, asked, other_dtypes
from tritonforge.verify.comparing import DEVICE, compile_ahead
from tritonforge.verify.costly import TOO_MUCH, costly
from tritonforge.verify.grouping import lightened
from tritonforge.verify.growing import Larger, larger, launched_for
from tritonforge.verify.inputs import Groups, Variation, find_groups, variations
from tritonforge.verify.judgement import worst
from tritonforge.verify.launched import Launched, launched
from tritonforge.verify.literals import Literal
from tritonforge.verify.once import Once
from tritonforge.verify.reaching import Reached, reaching
from tritonforge.verify.resizing import all_tensors, is_unset
from tritonforge.verify.sharing import FEW_LANES, FIRST, MOST, lanes_of
from tritonforge.verify.signature import parameters_of

_AFTER_CANDIDATES = 1
"""The priority of what is asked of the original alone."""
_PATIENCE = Limits(seconds=25.0)
"""For an input that may never end. A run of it is repeated some times for a self-check."""
_TAIL = 7
"""Elements by which a size is larger than a multiple of the recorded one."""
_ENDED = frozenset(["timeout", "memory"])
_DIED = frozenset(["crashed"])


@dataclass(frozen=True)
class Inputs:
    """The inputs of one call, and those that the original does not allow: about what, and why."""

    variations: tuple[Variation, ...]
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass
class Originals:
    """An original with the calls that it is judged on. `kernel`, `arch` and `grid` as in `Gate`."""

    worker: Worker
    program: Program
    calls: tuple[Call, ...]
    seed: int
    tolerance: Tolerance
    arch: str = ""
    kernel: Kernel | None = None
    grid: frozenset[int] = frozenset()
    on_device: bool = False
    precision: Precision | None = None
    """What runs of it for other candidates have told, of several the one that lost most."""
    ahead: Once[object, None] = field(default_factory=Once)
    """Forms of inputs that it was compiled for, for the GPU."""
    _groups: Once[int, Groups] = field(default_factory=Once)
    _lightened: Once[int, tuple[Call, Groups]] = field(default_factory=Once)
    _first: Once[tuple[int, int, frozenset[int]], tuple[Variation, ...]] = field(default_factory=Once)
    _asked: Once[int, Asked] = field(default_factory=Once)
    _costly: Once[int, Asked] = field(default_factory=Once)
    _reached: Once[tuple[int, int, tuple[Literal, ...]], Reached] = field(default_factory=Once)
    _larger: Once[int, Larger | None] = field(default_factory=Once)
    _launched: Once[None, Launched] = field(default_factory=Once)
    _operations: dict[Call, int] = field(default_factory=dict)
    _waking: asyncio.Task[None] | None = None
    _preparing: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Begin to find out, beside all else, whatever a candidate that passes its first inputs asks of the original.

        What goes wrong is met again by whoever needs it. Nothing is begun a second time.
        """
        self.wake_gpu()
        if self._preparing is None:
            self._preparing = asyncio.create_task(self._prepare())

    async def rest(self) -> None:
        """End what `prepare` began and nobody waits for; what it has found out is kept."""
        begun, self._preparing = self._preparing, None
        await ended([begun] if begun is not None else [])

    async def close(self) -> None:
        """End all that was begun."""
        await self.rest()
        waking, self._waking = self._waking, None
        await ended([waking] if waking is not None else [])

    async def _prepare(self) -> None:
        begun: list[Coroutine[Any, Any, object]] = [self._prepare_call(number) for number, _ in enumerate(self.calls)]
        if self.arch:
            begun.append(self.launched())
        await asyncio.gather(*begun, return_exceptions=True)

    async def _prepare_call(self, number: int) -> None:
        begun: list[Coroutine[Any, Any, object]] = [self._light(number)]
        if self.arch and not self.grid:
            # The grids of the compiled launches tell sizes that count programs: what is asked depends on them.
            begun.append(self.launched())
        await all_of(begun)
        await self._answers(number)

    async def compile_ahead(self, calls: Sequence[Call]) -> None:
        """Compile it for what is going to run on the GPU, each form of inputs once."""
        known, priority = self.ahead, _AFTER_CANDIDATES
        await compile_ahead(self.worker, self.program, calls, self.arch, known=known, priority=priority)

    def wake_gpu(self) -> None:
        """Have the GPU's lane start beside everything that needs no GPU: that takes it a second or two."""
        if self.on_device and self._waking is None:
            self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        with contextlib.suppress(JobError, TargetUnreachable):  # whoever needs the GPU is told
            await self.worker.run(LookAtGpu())

    async def launched(self) -> Launched:
        """Return what it launches, compiled."""
        return await self._launched.get(None, self._find_launched)

    @property
    def is_launched(self) -> bool:
        """Whether it is known what it launches."""
        return None in self._launched

    async def _find_launched(self) -> Launched:
        found = await launched(self.worker, self.program, self.calls, self.arch)
        self.grid = self.grid or found.grid
        return found

    async def larger(self, number: int) -> Larger | None:
        """Return one of the calls at larger sizes, with what is launched for it; None where it allows none."""
        return await self._larger.get(number, partial(self._find_larger, number))

    async def _find_larger(self, number: int) -> Larger | None:
        call = self.calls[number]
        # Some only take sizes that divide evenly, and a tail shows more.
        for tail in (_TAIL, 0) if call.kernel_launch is None else ():
            grown = larger(call, await self._groups_of(number), self.grid, tail=tail)
            found = await launched_for(self.worker, self.program, grown, self.arch) if grown else None
            if grown and found:
                return Larger(grown, found)
        return None

    def knows_inputs(self, number: int, tile: int, literals: tuple[Literal, ...]) -> bool:
        """Tell whether all inputs of one of the calls are known, so that nothing need be asked for them."""
        reached = not literals or (number, tile, literals) in self._reached
        return reached and number in self._asked and number in self._costly

    async def inputs(self, number: int, tile: int) -> Inputs:
        """Return the inputs of one of the calls, in the order in which they are tried.

        Args:
            number: which call.
            tile: the largest tile size that either side uses.
        """
        made = await self.first_inputs(number, tile)
        more, long = await self._answers(number)
        return Inputs((*made, *more.variations, *long.variations), (*more.skipped, *long.skipped))

    async def _answers(self, number: int) -> list[Asked]:
        return await all_of((self._allowed(number), self._long(number)))

    async def may_contradict(self, number: int) -> tuple[bool, bool]:
        """Tell whether integers of a call that are made to fit other sizes may contradict each other.

        And, if so, whether the original writes all of its outputs where they do not.
        """
        tensors = all_tensors(self.calls[number])
        made = any(one.dtype in ("int32", "int64") and one.elements > 1 and not is_unset(one) for one in tensors)
        return made, made and (await self._groups_of(number)).complete

    async def overlaps(self) -> bool:
        """Tell whether the order of its writes decides what it leaves of some call, as far as was seen."""
        groups = await all_of(self._groups_of(number) for number, _ in enumerate(self.calls))
        return any(not one.groups or one.overlapping for one in groups)

    async def weigh(self, number: int, calls: Sequence[Call]) -> list[float]:
        """Return about how many operations some inputs of a call take, each as it was seen or is expected."""
        _, groups = await self._light(number)
        return [float(known) if (known := self._operations.get(call)) else groups.weigh(call) for call in calls]

    def note_precision(self, told: Precision | None) -> None:
        """Remember how precise it was seen to be."""
        self.precision = worst(self.precision, told)

    def note_operations(self, call: Call, operations: int) -> None:
        """Remember how many operations on blocks an interpreted run of it took."""
        self._operations[call] = operations

    async def reaching(self, number: int, tile: int, literals: tuple[Literal, ...]) -> Reached:
        """Return further inputs of one of the calls, which cross the numbers that a candidate adds to the text.

        Args:
            number: which call.
            tile: the largest tile size that either side uses.
            literals: the candidate's new numbers (`new_literals`).
        """
        if not literals:
            return Reached()
        return await self._reached.get((number, tile, literals), partial(self._reach, number, tile, literals))

    async def _reach(self, number: int, tile: int, literals: tuple[Literal, ...]) -> Reached:
        groups = await self._groups_of(number)
        if not groups.groups:
            return Reached()
        return await reaching(
            self.calls[number],
            groups,
            literals,
            self._alone,
            usual=(await self.inputs(number, tile)).variations,
            tile=tile,
            seed=self.seed + 601,
            grid=self.grid,
        )

    async def first_inputs(self, number: int, tile: int) -> tuple[Variation, ...]:
        """Return those of the inputs that come first, for which the original need not be asked what it allows."""
        return await self._first.get((number, tile, self.grid), partial(self._make, number, tile))

    async def _make(self, number: int, tile: int) -> tuple[Variation, ...]:
        call, (light, groups) = self.calls[number], await self._light(number)
        before = {(one.file, one.function, one.kernel_launch is None) for one in self.calls[:number]}
        again = (call.file, call.function, call.kernel_launch is None) in before
        return variations(call, groups, tile=tile, seed=self.seed, grid=self.grid, lighter=light, again=again)

    async def _light(self, number: int) -> tuple[Call, Groups]:
        return await self._lightened.get(number, partial(self._lighten, number))

    async def _lighten(self, number: int) -> tuple[Call, Groups]:
        return await lightened(self.calls[number], await self._groups_of(number), self._can_do)

    async def _groups_of(self, number: int) -> Groups:
        return await self._groups.get(number, partial(self._find_groups, number))

    async def _find_groups(self, number: int) -> Groups:
        call = self.calls[number]
        found = await find_groups(call, self._can_do)
        if not found.groups and self.on_device:
            # What the interpreter cannot run at all, the GPU may; only accesses out of bounds stay unseen then.
            found = await find_groups(call, self._repeats_on_device)
        return found

    async def _allowed(self, number: int) -> Asked:
        return await self._asked.get(number, partial(self._ask, number))

    async def _ask(self, number: int) -> Asked:
        call, (light, groups) = self.calls[number], await self._light(number)
        return await asked(
            call,
            groups,
            self._repeats,
            seed=self.seed + 201,
            grid=self.grid,
            parameters=parameters_of(self.program, call),
            dtypes=other_dtypes(call, self.calls),
            lighter=light,
        )

    async def _long(self, number: int) -> Asked:
        return await self._costly.get(number, partial(self._ask_alone, number))

    async def _ask_alone(self, number: int) -> Asked:
        groups = await self._groups_of(number)
        return await costly(self.calls[number], groups, self._alone, seed=self.seed + 501, grid=self.grid)

    async def _alone(self, call: Call) -> InputOutcome:
        try:
            return (await self._interpreted([call], "again", _PATIENCE))[0]
        except JobError as error:
            if error.kind not in _ENDED | _DIED:
                raise
            return InputOutcome("original-failed", error.message, check=TOO_MUCH if error.kind in _ENDED else "")

    async def _can_do(self, calls: Sequence[Call]) -> Sequence[InputOutcome]:
        """Run the original once on each call."""
        return await self._interpreted(calls, "once")

    async def _repeats(self, calls: Sequence[Call]) -> Sequence[InputOutcome]:
        """Run the original twice on each call."""
        return await self._interpreted(calls, "again")

    @cached_property
    def _room(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Bounds what is asked at once, so that a candidate's first inputs find lanes: no job ends for them."""
        lanes = self.worker.hello.lanes
        return asyncio.Semaphore(max(1, lanes - FIRST)) if lanes > FEW_LANES else contextlib.nullcontext()

    async def _interpreted(
        self, calls: Sequence[Call], runs: Runs, limits: Limits | None = None
    ) -> Sequence[InputOutcome]:
        """Run it on each call, over the lanes; a candidate's inputs that wait go first."""
        lanes = lanes_of(self.worker.hello.lanes, on_device=self.on_device)
        jobs = max(min(lanes, len(calls)), -(-len(calls) // MOST))

        async def run(share: Sequence[Call]) -> Sequence[InputOutcome]:
            request = Compare(self.program, self.program, tuple(share), self.tolerance, stop_at_first=False, runs=runs)
            async with self._room:
                return (await self.worker.run(request, limits=limits, priority=_AFTER_CANDIDATES)).outcomes

        found = await all_of(run(calls[job::jobs]) for job in range(jobs))
        outcomes = [found[at % jobs][at // jobs] for at in range(len(calls))]
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.operations:
                self.note_operations(call, outcome.operations)
        return outcomes

    async def _repeats_on_device(self, calls: Sequence[Call]) -> Sequence[InputOutcome]:
        """Run the original twice on each call, on the GPU."""
        request = CompareOnDevice(self.program, self.program, tuple(calls), self.tolerance, stop_at_first=False)
        return (await self.worker.run(request, limits=DEVICE)).outcomes
