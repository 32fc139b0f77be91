"""The gate: a candidate becomes a suggestion only when this says that it still computes the same."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tritonforge.domain.candidate import Verdict
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Compare, CompareOnDevice, Difference, InputOutcome, Limits, Program, Tolerance
from tritonforge.jobs import Worker
from tritonforge.verify.inputs import Groups, Variation, find_groups, variations
from tritonforge.verify.resizing import describe

INTERPRET_LIMITS = Limits(seconds=120.0, memory_bytes=8 << 30)


@dataclass(frozen=True)
class Trialled:
    """A verdict with what is needed to explain and to repeat it."""

    verdict: Verdict
    inputs: tuple[Call, ...] = ()
    failing_input: str = ""
    difference: Difference | None = None


@dataclass
class Gate:
    """Checks candidates of one program against the calls that it is used with.

    Inputs depend on the original and the seed alone, so what is found out about them is kept between candidates, and the
    seed in hexadecimal (`Verdict.replay`) repeats the very same check.
    """

    worker: Worker
    original: Program
    calls: tuple[Call, ...]
    on_device: bool = False
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(1 << 30))
    tolerance: Tolerance = field(default_factory=Tolerance)
    _groups: dict[str, Groups] = field(default_factory=dict)

    async def check(self, candidate: Program, *, tile: int) -> Trialled:
        """Run original and candidate on every input and say whether they agree.

        Args:
            candidate: the edited program.
            tile: the largest tile size that either side uses, so that sizes cross it.
        """
        tried: list[tuple[Variation, InputOutcome]] = []
        device: list[tuple[Variation, InputOutcome]] = []
        for call in self.calls:
            groups = await self._groups_of(call)
            wanted = variations(call, groups, tile=tile, seed=self.seed)
            tried += await self._compare(candidate, wanted)
            if _failed(tried):
                break
            if self.on_device:
                full = dataclasses.replace(call, seed=self.seed + 101, launches=())
                device += await self._compare_on_device(candidate, (*wanted, Variation(full, "as recorded")))
                if _failed(device):
                    break
        return _judge(tried, device, self.tolerance, replay=f"{self.seed:08x}")

    async def _groups_of(self, call: Call) -> Groups:
        if call.id not in self._groups:

            async def self_check(calls: Sequence[Call]) -> Sequence[InputOutcome]:
                request = Compare(self.original, self.original, tuple(calls), self.tolerance, stop_at_first=False)
                return (await self.worker.run(request, limits=INTERPRET_LIMITS)).outcomes

            self._groups[call.id] = await find_groups(call, self_check)
        return self._groups[call.id]

    async def _compare(self, candidate: Program, wanted: tuple[Variation, ...]) -> list[tuple[Variation, InputOutcome]]:
        request = Compare(self.original, candidate, tuple(v.call for v in wanted), self.tolerance)
        result = await self.worker.run(request, limits=INTERPRET_LIMITS)
        return list(zip(wanted, result.outcomes, strict=False))

    async def _compare_on_device(
        self, candidate: Program, wanted: tuple[Variation, ...]
    ) -> list[tuple[Variation, InputOutcome]]:
        request = CompareOnDevice(self.original, candidate, tuple(v.call for v in wanted), self.tolerance)
        result = await self.worker.run(request, limits=INTERPRET_LIMITS)
        return list(zip(wanted, result.outcomes, strict=False))


def _failed(outcomes: Sequence[tuple[Variation, InputOutcome]]) -> bool:
    return any(outcome.status in ("different", "candidate-failed") for _, outcome in outcomes)


def _judge(
    interpreted: Sequence[tuple[Variation, InputOutcome]],
    device: Sequence[tuple[Variation, InputOutcome]],
    tolerance: Tolerance,
    *,
    replay: str,
) -> Trialled:
    everything = [*interpreted, *device]
    says_something = [(v, o) for v, o in everything if o.status != "original-failed"]
    failing = next(((v, o) for v, o in says_something if o.status != "equal"), None)
    errors = [o.worst_error for _, o in says_something if o.worst_error is not None]
    own = [o.original_error for _, o in says_something if o.original_error is not None]
    compared = sum(o.outputs for _, o in says_something)
    reason, accepted = "", False
    if failing:
        reason = f"{failing[1].detail or failing[1].status} on {describe(failing[0].call)} ({failing[0].about})"
    elif not says_something:
        first = everything[0][1].detail if everything else "no input"
        reason = f"nothing could be compared: the original fails on every input that was tried ({first})"
    elif not compared:
        reason = "nothing could be compared: the call returns and changes nothing"
    else:
        accepted = True
        reason = f"same results on {len(says_something)} inputs"
    verdict = Verdict(
        accepted=accepted,
        reason=reason,
        inputs=tuple(f"{describe(v.call)}: {_outcome(o)} ({v.about})" for v, o in everything),
        oracle="the original kernel through its host function"
        + (" in Triton's interpreter and on the GPU" if device else " in Triton's interpreter"),
        tolerance=f"{tolerance.ulps:g} ulp of the output's type plus {tolerance.relative:g} of the output's scale; "
        "integers, NaN and Inf exact",
        worst_error=max(errors, default=None),
        baseline_error=max(own, default=None),
        checks=_checks(interpreted, device),
        replay=replay,
    )
    return Trialled(
        verdict,
        tuple(v.call for v, _ in everything),
        describe(failing[0].call) if failing else "",
        failing[1].difference if failing else None,
    )


def _outcome(outcome: InputOutcome) -> str:
    if outcome.status == "original-failed":
        return f"skipped, the original fails: {outcome.detail}"
    if outcome.status == "equal":
        return "equal" if not outcome.worst_error else f"equal within tolerance, worst error {outcome.worst_error:.1e}"
    return outcome.detail or outcome.status


def _checks(
    interpreted: Sequence[tuple[Variation, InputOutcome]], device: Sequence[tuple[Variation, InputOutcome]]
) -> dict[str, str]:
    """Name what was checked; one bad outcome fails the check that it belongs to and leaves the others as they are."""
    checks = {
        "results": "passed",
        "within bounds": "passed",
        "inputs unchanged": "passed",
        "off the tile boundary": "passed",
        "special values": "passed",
        "on the GPU": "passed" if device else "skipped: no GPU on this target",
    }
    for variation, outcome in [*interpreted, *device]:
        if outcome.status == "candidate-failed":
            checks["within bounds" if "bounds" in outcome.detail else "results"] = f"failed: {outcome.detail}"
        elif outcome.status == "different":
            name = "inputs unchanged" if outcome.inputs_changed else "results"
            checks[name] = f"failed: {outcome.detail} on {variation.about}"
    for name, about in (("off the tile boundary", "tail"), ("special values", "NaN")):
        matching = [o for v, o in interpreted if about in v.about]
        if not matching:
            checks[name] = "skipped: no such input for this call"
        elif all(o.status == "original-failed" for o in matching):
            checks[name] = "skipped: the original fails on it"
        elif any(o.status in ("different", "candidate-failed") for o in matching):
            checks[name] = "failed: see the inputs"
    return checks
