"""Both kernels launched directly, side by side, on sizes, strides and scalars that the host function never makes.

The calls that are compared go through the host function, which gives every tensor the strides it likes and every size
the same buffers. Where a candidate's kernel takes the same arguments over the same grid, it can be launched in the
original's place: whatever the original can be told, the candidate must understand alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, RecordedLaunch, Scalar
from tritonforge.domain.messages import CallExtents, Compare, MeasureExtents, Program, Tolerance
from tritonforge.jobs import Worker
from tritonforge.verify.direct_buffers import fitted, least_spans, roomy
from tritonforge.verify.direct_grid import integers
from tritonforge.verify.direct_pairs import comparable, distinct, of
from tritonforge.verify.direct_plan import LARGEST_TILE, MOST_PROGRAMS, Launch, Plan, Wish, plan_of
from tritonforge.verify.direct_wishes import base, steps, unchecked, wishes
from tritonforge.verify.inputs import Variation
from tritonforge.verify.resizing import all_tensors
from tritonforge.verify.values import mosaic, poisoned_alone, turns
from tritonforge.verify.values import with_values as with_policies

MOST_VARIATIONS = 10
"""Inputs of one launch."""
_MOST_HOSTILE = 1 << 18
"""Elements of a launch that are filled with hostile values."""
FEW_VARIATIONS = 3
"""Inputs of a launch of another kind."""


@dataclass(frozen=True)
class DirectInputs:
    """Direct launches to compare, or in `reason` why there are none, as it stands after `skipped: `.

    `candidate_inputs` are the same launches as the candidate takes them. `notes` say which variations the original
    itself cannot do, one sentence each.
    """

    variations: tuple[Variation, ...] = ()
    candidate_inputs: tuple[Call, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()

    def request(self, original: Program, candidate: Program, tolerance: Tolerance | None = None) -> Compare:
        """Return the job that compares the two programs on them."""
        inputs = tuple(one.call for one in self.variations)
        return Compare(original, candidate, inputs, tolerance or Tolerance(), candidate_inputs=self.candidate_inputs)


async def direct_variations(
    worker: Worker,
    original: Program,
    candidate: Program,
    before: Sequence[RecordedLaunch],
    after: Sequence[RecordedLaunch],
    *,
    kernel: Kernel,
    candidate_kernel: Kernel,
    seed: int,
) -> DirectInputs:
    """Find direct launches on which the two kernels must agree.

    For the gate: call it once a candidate has passed on its host function, with what `gate.launched` returned for both
    programs. When `reason` is set, the check `direct launches` is `skipped: {reason}`. Otherwise run
    `found.request(original, candidate, tolerance)` and treat its outcomes, one for each of `found.variations`, like any
    other: what is not `equal` and not `original-failed` refuses. `notes` belong to the verdict's notes. What is found
    out about the original is kept by the worker, so that the next candidate costs its own runs only.

    Args:
        worker: where kernels are interpreted.
        original: the program of the original.
        candidate: the edited program; only its kernel's name is used here.
        before: what the recorded calls launch of the original, in order.
        after: what they launch of the candidate.
        kernel: the original's kernel.
        candidate_kernel: the candidate's.
        seed: of the values; the same seed gives the same variations.

    Raises:
        JobError: when the worker cannot run the job at all.
    """
    del candidate
    reason = comparable(kernel, candidate_kernel, before, after)
    if reason:
        return DirectInputs(reason=reason)
    mine, theirs = of(kernel, before), of(candidate_kernel, after)
    trials = [
        _Trial(plan_of(kernel, one, mine, _tile(kernel, (one, other))), other, reached(kernel), seed)
        for one, other in distinct(mine, theirs)
    ]
    function = reached(candidate_kernel)
    variations: list[Variation] = []
    others: list[Call] = []
    notes: list[str] = []
    for index, trial in enumerate(trials):
        found = (await trial.explore(worker, original))[: MOST_VARIATIONS if index == 0 else FEW_VARIATIONS]
        variations += found
        others += [as_candidates(one.call, trial.plan.launch, trial.other, function) for one in found]
        notes += trial.notes
    if not variations:
        return DirectInputs(reason=notes[0] if notes else "nothing of the launch can be varied", notes=tuple(notes))
    return DirectInputs(tuple(variations), tuple(others), notes=tuple(dict.fromkeys(notes)))


class _Trial:
    """One launch, varied: asks the original which variations it can do and how much memory they take."""

    def __init__(self, plan: Plan, other: RecordedLaunch, function: str, seed: int) -> None:
        self.plan, self.other, self.function, self.seed = plan, other, function, seed
        self.notes: list[str] = []

    async def explore(self, worker: Worker, program: Program) -> list[Variation]:
        """Return what both kernels can be launched with; `notes` say what cannot."""
        even = not await self._checks_sizes(worker, program)
        (first, *_) = await self._measure(worker, program, [base(self.plan, even=even)])
        if first is None and not even:
            even = True
            (first, *_) = await self._measure(worker, program, [base(self.plan, even=True)])
        if first is None:
            return []
        more = [launch for launch in wishes(self.plan, even=even) if self._same_grid(launch[0])]
        rest = await self._measure(worker, program, more, first[1])
        calls = [found[0] for found in rest if found is not None]
        tile = self.plan.tile
        return [first[0], *_poisoned(first[0], tile, self.seed), *_hostile(calls, tile)][:MOST_VARIATIONS]

    async def _checks_sizes(self, worker: Worker, program: Program) -> bool:
        launches, varied = steps(self.plan)
        calls = [self._roomy(launch) for launch in launches]
        fit = [call for call, (wish, _, _) in zip(calls, launches, strict=True) if call and self._few(wish)]
        if not varied or len(fit) < len(launches):
            return True
        found = (await worker.run(MeasureExtents(program, tuple(fit)))).extents
        size = "" if any(one.error for one in found) else unchecked(self.plan, launches, varied, found)
        if size:
            self.notes.append(f"the original's kernel does not check {size}: direct launches divide evenly")
        return not size

    async def _measure(
        self, worker: Worker, program: Program, wanted: Sequence[Launch], first: CallExtents | None = None
    ) -> list[tuple[Variation, CallExtents] | None]:
        """Return each launch with buffers that fit, None for what the original cannot do.

        `first` is what the launch touches of which these are variations.
        """
        out: list[tuple[Variation, CallExtents] | None] = [None] * len(wanted)
        calls: dict[int, Call] = {}
        for index, launch in enumerate(wanted):
            call = self._roomy(launch)
            if not self._few(launch[0]) or not self._same_grid(launch[0]):
                self._skip(launch[0], f"its grid {list(launch[0].grid)} is too large, or another for the candidate")
            elif call is None:
                self._skip(launch[0], "it takes too much memory")
            else:
                calls[index] = call
        if not calls:
            return out
        result = await worker.run(MeasureExtents(program, tuple(calls.values())))
        for (index, call), found in zip(calls.items(), result.extents, strict=True):
            wish, sizes, top = wanted[index]
            problem = _problem(wish, found, first)
            if problem:
                self._skip(wish, problem)
                continue
            least = least_spans(self.plan, found, sizes, top)
            fitting = fitted(self.plan, wish, found, least, sizes, function=self.function, seed=call.seed)
            out[index] = Variation(fitting, f"direct launch: {wish.about}"), found
        return out

    def _roomy(self, launch: Launch) -> Call | None:
        return roomy(self.plan, *launch, function=self.function, seed=self.seed)

    def _few(self, wish: Wish) -> bool:
        return math.prod(wish.grid) <= MOST_PROGRAMS

    def _same_grid(self, wish: Wish) -> bool:
        """Tell whether both kernels' hosts would give this launch the same grid."""
        own = {name: v for name, v in integers(self.other).items() if name not in wish.values}
        return self.plan.grid({**own, **wish.values}) == wish.grid

    def _skip(self, wish: Wish, why: str) -> None:
        self.notes.append(f"a direct launch with {wish.about} is left out: {why}")


def _problem(wish: Wish, found: CallExtents, first: CallExtents | None) -> str:
    if found.error:
        return f"the original fails: {found.error}"
    if first is not None and found.overlapping and not first.overlapping:
        return "what the original writes overlaps"
    before = {b.parameter: b.high for b in first.buffers if b.high} if first is not None and wish.within else {}
    further = [b.parameter for b in found.buffers if b.high > before.get(b.parameter, b.high)]
    return f"the original then goes further in {further[0]}" if further else ""


def _poisoned(first: Variation, tile: int, seed: int) -> Iterator[Variation]:
    """Yield the first launch with NaN and infinities."""
    count = turns(first.call)
    if count:
        policies = poisoned_alone(first.call, seed % count, tile=tile)
        yield Variation(with_policies(first.call, policies), f"{first.about}; NaN and Inf")


def _hostile(calls: Sequence[Variation], tile: int) -> Iterator[Variation]:
    """Yield the other launches, one of them, that with the largest buffers, with every finite family of values."""
    sizes = {index: sum(t.elements for t in all_tensors(one.call)) for index, one in enumerate(calls)}
    # A few programs touch little of a large buffer, and to fill it takes long.
    fitting = [index for index, size in sizes.items() if size <= _MOST_HOSTILE] or list(sizes)
    largest = max(fitting, key=lambda index: sizes[index], default=-1)
    for index, one in enumerate(calls):
        policies = mosaic(one.call, (), tile=min(tile, 64)) if index == largest else {}
        yield Variation(with_policies(one.call, policies), f"{one.about}; hostile values") if policies else one


def as_candidates(call: Call, launch: RecordedLaunch, other: RecordedLaunch, function: str) -> Call:
    """Return a direct launch of the original as the candidate takes it: with its own kernel and tiles."""
    own = {name: value for name, value in other.constexprs if value != dict(launch.constexprs)[name]}
    keywords = tuple((name, own.get(name, value)) for name, value in call.keywords)
    return dataclasses.replace(call, file=other.kernel_file, function=function, keywords=keywords)


def _tile(kernel: Kernel, launches: Sequence[RecordedLaunch]) -> int:
    """Return the largest tile of either launch that is not too large to cross."""
    tiles = [
        v.value for one in launches for name, v in one.constexprs if isinstance(v, Scalar) and name in kernel.tiles
    ]
    return max((t for t in tiles if type(t) is int and t <= LARGEST_TILE), default=32)


def reached(kernel: Kernel) -> str:
    """Return how the function under its tuners is reached: what they would choose is given."""
    tuners = [d for d in kernel.decorators if d.partition("(")[0].rpartition(".")[2] in ("autotune", "heuristics")]
    return kernel.name + ".fn" * len(tuners)
