"""What is found out about an original once, for all of its candidates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    InputOutcome,
    Limits,
    LookAtGpu,
    Program,
    Runs,
    Tolerance,
)
from tritonforge.jobs import JobError, Worker
from tritonforge.verify.asking import Asked, asked, other_dtypes
from tritonforge.verify.comparing import DEVICE
from tritonforge.verify.costly import TOO_MUCH, costly
from tritonforge.verify.grouping import lightened
from tritonforge.verify.growing import Larger, larger, launched_for
from tritonforge.verify.inputs import Groups, Variation, find_groups, variations
from tritonforge.verify.launched import Launched, launched
from tritonforge.verify.literals import Literal
from tritonforge.verify.reaching import Reached, reaching
from tritonforge.verify.signature import parameters_of

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
    _groups: dict[int, Groups] = field(default_factory=dict)
    _lightened: dict[int, tuple[Call, Groups]] = field(default_factory=dict)
    _first: dict[tuple[int, int, frozenset[int]], tuple[Variation, ...]] = field(default_factory=dict)
    _asked: dict[int, Asked] = field(default_factory=dict)
    _costly: dict[int, Asked] = field(default_factory=dict)
    _reached: dict[tuple[int, int, tuple[Literal, ...]], Reached] = field(default_factory=dict)
    _larger: dict[int, Larger | None] = field(default_factory=dict)
    _launched: Launched | None = None
    _waking: asyncio.Task[None] | None = None

    def wake_gpu(self) -> None:
        """Have the GPU's lane start beside everything that needs no GPU: that takes it a second or two."""
        if self.on_device and self._waking is None:
            self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        with contextlib.suppress(JobError, TargetUnreachable):  # whoever needs the GPU is told
            await self.worker.run(LookAtGpu())

    async def launched(self) -> Launched:
        """Return what it launches, compiled."""
        if self._launched is None:
            self._launched = await launched(self.worker, self.program, self.calls, self.arch)
            self.grid = self.grid or self._launched.grid
        return self._launched

    async def larger(self, number: int) -> Larger | None:
        """Return one of the calls at larger sizes, with what is launched for it; None where it allows none."""
        if number not in self._larger:
            call = self.calls[number]
            self._larger[number] = None
            # Some only take sizes that divide evenly, and a tail shows more.
            for tail in (_TAIL, 0) if call.kernel_launch is None else ():
                grown = larger(call, await self._groups_of(number), self.grid, tail=tail)
                found = await launched_for(self.worker, self.program, grown, self.arch) if grown else None
                if grown and found:
                    self._larger[number] = Larger(grown, found)
                    break
        return self._larger[number]

    async def inputs(self, number: int, tile: int) -> Inputs:
        """Return the inputs of one of the calls, in the order in which they are tried.

        Args:
            number: which call.
            tile: the largest tile size that either side uses.
        """
        made = await self.first_inputs(number, tile)
        more = await self._allowed(number, await self._groups_of(number))
        long = await self._long(number)
        return Inputs((*made, *more.variations, *long.variations), (*more.skipped, *long.skipped))

    async def reaching(self, number: int, tile: int, literals: tuple[Literal, ...]) -> Reached:
        """Return further inputs of one of the calls, which cross the numbers that a candidate adds to the text.

        Args:
            number: which call.
            tile: the largest tile size that either side uses.
            literals: the candidate's new numbers (`new_literals`).
        """
        groups = await self._groups_of(number)
        key = (number, tile, literals)
        if literals and groups.groups and key not in self._reached:
            self._reached[key] = await reaching(
                self.calls[number],
                groups,
                literals,
                self._alone,
                usual=(await self.inputs(number, tile)).variations,
                tile=tile,
                seed=self.seed + 601,
                grid=self.grid,
            )
        return self._reached.get(key, Reached())

    async def first_inputs(self, number: int, tile: int) -> tuple[Variation, ...]:
        """Return those of the inputs that come first, for which the original need not be asked what it allows."""
        key = (number, tile, self.grid)
        if key not in self._first:
            self._first[key] = await self._made(number, tile)
        return self._first[key]

    async def _made(self, number: int, tile: int) -> tuple[Variation, ...]:
        call, (light, groups) = self.calls[number], await self._light(number)
        before = {(one.file, one.function, one.kernel_launch is None) for one in self.calls[:number]}
        again = (call.file, call.function, call.kernel_launch is None) in before
        return variations(call, groups, tile=tile, seed=self.seed, grid=self.grid, lighter=light, again=again)

    async def _light(self, number: int) -> tuple[Call, Groups]:
        if number not in self._lightened:
            call, groups = self.calls[number], await self._groups_of(number)
            self._lightened[number] = await lightened(call, groups, self._can_do)
        return self._lightened[number]

    async def _groups_of(self, number: int) -> Groups:
        if number not in self._groups:
            call = self.calls[number]
            found = await find_groups(call, self._can_do)
            if not found.groups and self.on_device:
                # What the interpreter cannot run at all, the GPU may; only accesses out of bounds stay unseen then.
                found = await find_groups(call, self._repeats_on_device)
            self._groups[number] = found
        return self._groups[number]

    async def _allowed(self, number: int, groups: Groups) -> Asked:
        if number not in self._asked:
            call = self.calls[number]
            self._asked[number] = await asked(
                call,
                groups,
                self._repeats,
                seed=self.seed + 201,
                grid=self.grid,
                parameters=parameters_of(self.program, call),
                dtypes=other_dtypes(call, self.calls),
                lighter=(await self._light(number))[0],
            )
        return self._asked[number]

    async def _long(self, number: int) -> Asked:
        if number not in self._costly:
            groups = await self._groups_of(number)
            self._costly[number] = await costly(
                self.calls[number], groups, self._alone, seed=self.seed + 501, grid=self.grid
            )
        return self._costly[number]

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

    async def _interpreted(
        self, calls: Sequence[Call], runs: Runs, limits: Limits | None = None
    ) -> Sequence[InputOutcome]:
        request = Compare(self.program, self.program, tuple(calls), self.tolerance, stop_at_first=False, runs=runs)
        return (await self.worker.run(request, limits=limits)).outcomes

    async def _repeats_on_device(self, calls: Sequence[Call]) -> Sequence[InputOutcome]:
        """Run the original twice on each call, on the GPU."""
        request = CompareOnDevice(self.program, self.program, tuple(calls), self.tolerance, stop_at_first=False)
        return (await self.worker.run(request, limits=DEVICE)).outcomes
