"""The gate: a candidate becomes a suggestion only when this says that it still computes the same."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.candidate import Verdict
from tritonforge.domain.launch import Call, RecordedLaunch, Scalar
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    Compile,
    Difference,
    InputOutcome,
    Limits,
    Program,
    Tolerance,
)
from tritonforge.jobs import Worker
from tritonforge.verify.asking import Asked, asked, other_dtypes
from tritonforge.verify.inputs import Groups, SelfCheck, Variation, find_groups, variations
from tritonforge.verify.resizing import describe
from tritonforge.verify.signature import parameters_of

DEVICE = Limits(seconds=120.0, memory_bytes=64 << 30)
"""A process that uses a GPU maps far more memory than it fills."""
LARGEST_BLOCK = 1 << 16
LEAST_INPUTS = 2
"""A candidate passes only when at least this many inputs of each call could be compared."""


@dataclass(frozen=True)
class Trialled:
    """A verdict with what is needed to explain and to repeat it."""

    verdict: Verdict
    inputs: tuple[Call, ...] = ()
    failing_input: str = ""
    difference: Difference | None = None
    notes: tuple[str, ...] = ()
    """What was seen of the original itself, one sentence each."""


@dataclass(frozen=True)
class Tried:
    """One input with what happened on it."""

    variation: Variation
    outcome: InputOutcome
    on_device: bool

    @property
    def text(self) -> str:
        """One line: the call, the outcome, what was special about it and where it ran."""
        place = " on the GPU" if self.on_device else ""
        return f"{describe(self.variation.call)}{place}: {_outcome(self.outcome)} ({self.variation.about})"


@dataclass
class Gate:
    """Checks candidates of one program against the calls that it is used with.

    `grid` holds the extents of the original's grids: what the sizes of a call that count programs are told by.

    Inputs depend on the original and the seed alone, so what is found out about them is kept between candidates, and
    the seed in hexadecimal (`Verdict.replay`) repeats the very same check.
    """

    worker: Worker
    original: Program
    calls: tuple[Call, ...]
    on_device: bool = False
    grid: frozenset[int] = frozenset()
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 30))
    tolerance: Tolerance = field(default_factory=Tolerance)
    _groups: dict[str, Groups] = field(default_factory=dict)
    _asked: dict[str, Asked] = field(default_factory=dict)

    async def check(self, candidate: Program, *, tile: int) -> Trialled:
        """Run original and candidate on every input and say whether they agree.

        Args:
            candidate: the edited program.
            tile: the largest tile size that either side uses, so that sizes cross it.
        """
        tried: list[Tried] = []
        silent: list[str] = []
        for call in self.calls:
            groups = await self._groups_of(call)
            wanted = variations(call, groups, tile=tile, seed=self.seed, grid=self.grid)
            wanted += (await self._allowed(call, groups)).variations
            own = await self._compare(candidate, wanted)
            if self.on_device and not _failed(own):
                full = dataclasses.replace(call, seed=self.seed + 101, launches=())
                own += await self._compare_on_device(candidate, (*wanted, Variation(full, "as recorded")))
            tried += own
            if _failed(own):
                break
            if sum(one.outcome.status == "equal" and one.outcome.outputs > 0 for one in own) < LEAST_INPUTS:
                silent.append(next((one.outcome.detail for one in own if one.outcome.detail), "it changes nothing"))
        return _judge(tried, silent, self.tolerance, replay=f"{self.seed:08x}", on_device=self.on_device)

    async def _groups_of(self, call: Call) -> Groups:
        if call.id not in self._groups:
            found = await find_groups(call, self._on_original(Compare))
            if not found.groups and self.on_device:
                # What the interpreter cannot run at all, the GPU may; only accesses out of bounds stay unseen then.
                found = await find_groups(call, self._on_original(CompareOnDevice))
            self._groups[call.id] = found
        return self._groups[call.id]

    async def _allowed(self, call: Call, groups: Groups) -> Asked:
        if call.id not in self._asked:
            self._asked[call.id] = await asked(
                call,
                groups,
                self._on_original(Compare),
                seed=self.seed + 201,
                grid=self.grid,
                parameters=parameters_of(self.original, call),
                dtypes=other_dtypes(call, self.calls),
            )
        return self._asked[call.id]

    def _on_original(self, job: type[Compare | CompareOnDevice]) -> SelfCheck:
        async def self_check(calls: Sequence[Call]) -> Sequence[InputOutcome]:
            request = job(self.original, self.original, tuple(calls), self.tolerance, stop_at_first=False)
            return (await self.worker.run(request, limits=DEVICE if job is CompareOnDevice else None)).outcomes

        return self_check

    async def _compare(self, candidate: Program, wanted: tuple[Variation, ...]) -> list[Tried]:
        request = Compare(self.original, candidate, tuple(v.call for v in wanted), self.tolerance)
        result = await self.worker.run(request)
        return [Tried(v, o, on_device=False) for v, o in zip(wanted, result.outcomes, strict=False)]

    async def _compare_on_device(self, candidate: Program, wanted: tuple[Variation, ...]) -> list[Tried]:
        request = CompareOnDevice(self.original, candidate, tuple(v.call for v in wanted), self.tolerance)
        result = await self.worker.run(request, limits=DEVICE)
        return [Tried(v, o, on_device=True) for v, o in zip(wanted, result.outcomes, strict=False)]


@dataclass(frozen=True)
class Launched:
    """What a program launches when calls are repeated, and the first launch that does not compile, as one sentence."""

    launches: tuple[RecordedLaunch, ...]
    error: str | None = None

    @property
    def largest_tile(self) -> int:
        """The largest constexpr integer that can be a block size, at least 64."""
        values = [
            value.value for launch in self.launches for _, value in launch.constexprs if isinstance(value, Scalar)
        ]
        return max([64, *(v for v in values if type(v) is int and v <= LARGEST_BLOCK)])

    @property
    def grid(self) -> frozenset[int]:
        """The extents of its grids."""
        return frozenset(extent for launch in self.launches for extent in launch.grid if extent > 1)


async def launched(worker: Worker, program: Program, calls: Sequence[Call], arch: str) -> Launched:
    """Repeat `calls` on `program` without running anything, compiling what it launches.

    Raises:
        JobError: when a call cannot be repeated.
    """
    launches: list[RecordedLaunch] = []
    error = None
    for call in calls:
        result = await worker.run(Compile(program, call, arch, artefacts=()))
        launches += [one.launch for one in result.launches]
        error = error or next((one.error for one in result.launches if one.error), None)
    return Launched(tuple(launches), error)


def refusal(reason: str, *, replay: str = "") -> Trialled:
    """Refuse a candidate before it was run."""
    return Trialled(
        Verdict(False, reason, (), "none: it was not run", "", None, None, {"results": f"failed: {reason}"}, replay)
    )


def _failed(tried: Sequence[Tried]) -> bool:
    return any(one.outcome.status in ("different", "candidate-failed") for one in tried)


def _judge(
    tried: Sequence[Tried], silent: Sequence[str], tolerance: Tolerance, *, replay: str, on_device: bool
) -> Trialled:
    informative = [one for one in tried if one.outcome.status != "original-failed"]
    failing = next((one for one in informative if one.outcome.status != "equal"), None)
    errors = [one.outcome.worst_error for one in informative if one.outcome.worst_error is not None]
    own = [one.outcome.original_error for one in informative if one.outcome.original_error is not None]
    if failing:
        why = failing.outcome.detail or failing.outcome.status
        reason = f"{why} on {describe(failing.variation.call)} ({failing.variation.about})"
    elif silent:
        reason = f"too little could be compared: {silent[0]}"
    else:
        reason = f"same results on {len(informative)} inputs"
    verdict = Verdict(
        accepted=failing is None and not silent,
        reason=reason,
        inputs=tuple(one.text for one in tried),
        oracle="the original kernel through its host function in Triton's interpreter"
        + (" and on the GPU" if on_device else ""),
        tolerance=f"{tolerance.ulps:g} ulp of the output's type plus {tolerance.relative:g} of the output's scale; "
        "integers, NaN and Inf exact",
        worst_error=max(errors, default=None),
        baseline_error=max(own, default=None),
        checks=_checks(tried, on_device=on_device, refused=failing is not None),
        replay=replay,
    )
    return Trialled(
        verdict,
        tuple(one.variation.call for one in tried),
        describe(failing.variation.call) if failing else "",
        failing.outcome.difference if failing else None,
        _of_original(tried),
    )


def _of_original(tried: Sequence[Tried]) -> tuple[str, ...]:
    outside = next(
        (one for one in tried if one.outcome.status == "original-failed" and one.outcome.out_of_bounds), None
    )
    if outside is None:
        return ()
    return (f"The original itself leaves its buffers on {describe(outside.variation.call)}: {outside.outcome.detail}",)


def _checks(tried: Sequence[Tried], *, on_device: bool, refused: bool) -> dict[str, str]:
    """Name what was checked: each check looks at the inputs that can show its fault.

    The first failing input ends the comparison, so that checks whose inputs come later were not made.
    """
    untried = "skipped: refused before" if refused else "skipped: no such input for this call"
    interpreted = [one for one in tried if not one.on_device]
    checks = {
        "results": _check(tried, lambda o: (o.status == "different" and not o.inputs_changed) or _crashed(o)),
        "within bounds": _check(interpreted, lambda o: o.out_of_bounds),
        "inputs unchanged": _check(tried, lambda o: bool(o.inputs_changed)),
    }
    for name, about in (("off the tile boundary", "tail"), ("special values", "NaN")):
        checks[name] = _check(
            [one for one in tried if about in one.variation.about], lambda o: o.status != "equal", untried
        )
    no_gpu = untried if on_device else "skipped: no GPU here"
    checks["on the GPU"] = _check([one for one in tried if one.on_device], lambda o: o.status != "equal", no_gpu)
    return checks


def _crashed(outcome: InputOutcome) -> bool:
    return outcome.status == "candidate-failed" and not outcome.out_of_bounds


def _check(
    tried: Sequence[Tried], is_bad: Callable[[InputOutcome], bool], untried: str = "skipped: nothing was tried"
) -> str:
    informative = [one for one in tried if one.outcome.status != "original-failed"]
    bad = next((one for one in informative if is_bad(one.outcome)), None)
    if bad:
        return f"failed: {bad.outcome.detail or bad.outcome.status} ({bad.variation.about})"
    if not informative:
        return "skipped: the original fails on it" if tried else untried
    return "passed"


def _outcome(outcome: InputOutcome) -> str:
    if outcome.status == "original-failed":
        return f"skipped, the original fails: {outcome.detail}"
    if outcome.status == "equal":
        return "equal" if not outcome.worst_error else f"equal within tolerance, worst error {outcome.worst_error:.1e}"
    return outcome.detail or outcome.status
