"""From what happened on every input to a verdict: accepted or refused, why, and what each check says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.candidate import Verdict
from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Difference, InputOutcome, Precision, Tolerance
from tritonforge.verify.inputs import Variation
from tritonforge.verify.replaying import Place
from tritonforge.verify.resizing import describe
from tritonforge.verify.sharing import Planned
from tritonforge.verify.spreading import SPREADS

CHECKS = (
    "results",
    "within bounds",
    "inputs unchanged",
    "off the tile boundary",
    "special values",
    "empty",
    "strides",
    "precision",
    "source rules",
    "write conflicts",
    "program order",
    "repeated calls",
    "library fallback",
    "kernels compared directly",
    "coverage",
    "on the GPU",
    "sanitiser",
)
"""Every check of a verdict, in the order in which people read them."""

PASSED = "passed"
REFUSED_BEFORE = "skipped: refused before"


@dataclass(frozen=True)
class Tried:
    """One input with what happened on it."""

    variation: Variation
    outcome: InputOutcome
    place: Place

    @property
    def on_device(self) -> bool:
        """Whether it ran on the GPU."""
        return self.place.where == "device"

    @property
    def failed(self) -> bool:
        """Whether the candidate failed on it."""
        return self.outcome.status in ("different", "candidate-failed")

    @property
    def text(self) -> str:
        """One line: the call, the outcome, what was special about it and where it ran."""
        where = {"device": " on the GPU", "direct": " launched directly", "call": ""}[self.place.where]
        return f"{describe(self.variation.call)}{where}: {_outcome(self.outcome)} ({self.variation.about})"


@dataclass(frozen=True)
class Trialled:
    """A verdict with what is needed to explain and to repeat it. `seconds`: how long each phase took."""

    verdict: Verdict
    inputs: tuple[Call, ...] = ()
    failing_input: str = ""
    difference: Difference | None = None
    notes: tuple[str, ...] = ()
    """What was seen of the original itself, one sentence each."""
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Evidence:
    """What one check of a candidate has found out.

    `made` says of checks what they said; those not in it are judged by `tried`. `skipped` are inputs that the original
    does not allow, with the reason. `refused` is a reason to refuse that no input shows.
    """

    seed: int
    tolerance: Tolerance
    on_device: bool
    reference: str = ""
    tried: list[Tried] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    coverage: tuple[KernelCoverage, ...] = ()
    notes: list[str] = field(default_factory=list)
    refused: str = ""
    lower_precision: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def failing(self) -> Tried | None:
        """The first input that the candidate fails on, in the order of the plan."""
        return min((one for one in self.tried if one.failed), key=lambda one: one.place, default=None)

    def fresh(self, planned: Sequence[Planned]) -> list[Planned]:
        """Return what was not tried yet."""
        known = {one.place for one in self.tried}
        return [one for one in planned if one.place not in known]

    @property
    def precision(self) -> Precision | None:
        """The original's precision as interpreted runs told it: of several, that of the run which lost most."""
        return worst(*(one.outcome.precision for one in self.tried))

    @property
    def over(self) -> bool:
        """Whether the candidate is refused already."""
        return bool(self.refused) or any(one.failed for one in self.tried)


def worst(*told: Precision | None) -> Precision | None:
    """Return the precision of the run that lost most, of those that told any; the first of several alike."""
    return max((one for one in told if one is not None), key=lambda one: one.lost, default=None)


def refusal(reason: str, *, replay: str = "") -> Trialled:
    """Refuse a candidate before it was run."""
    checks = dict.fromkeys(CHECKS, REFUSED_BEFORE) | {"results": f"failed: {reason}"}
    return Trialled(Verdict(False, reason, (), "none: it was not run", "", None, None, checks, replay))


def judge(evidence: Evidence) -> Trialled:
    """Return the verdict."""
    informative = [one for one in evidence.tried if one.outcome.status != "original-failed"]
    failing = evidence.failing
    if failing:
        why = failing.outcome.detail or failing.outcome.status
        reason = f"{why} on {describe(failing.variation.call)} ({failing.variation.about})"
    elif evidence.refused:
        reason = evidence.refused
    else:
        reason = f"same results on {len(informative)} inputs"
    verdict = Verdict(
        accepted=failing is None and not evidence.refused,
        reason=reason,
        inputs=(
            *(one.text for one in evidence.tried),
            *dict.fromkeys(f"skipped, {why} ({about})" for about, why in evidence.skipped),
        ),
        oracle=_oracle(evidence, informative),
        tolerance=evidence.tolerance.text if informative else "",
        worst_error=max((e for one in informative if (e := one.outcome.worst_error) is not None), default=None),
        baseline_error=max((e for one in informative if (e := one.outcome.original_error) is not None), default=None),
        checks=_checks(evidence),
        replay=Place.id(evidence.seed, failing.place if failing else None),
        lower_precision=evidence.lower_precision and failing is None,
    )
    return Trialled(
        verdict,
        tuple(one.variation.call for one in evidence.tried),
        describe(failing.variation.call) if failing else "",
        failing.outcome.difference if failing else None,
        tuple(dict.fromkeys((*evidence.notes, *_of_original(evidence.tried)))),
        dict(evidence.seconds),
    )


def _oracle(evidence: Evidence, informative: Sequence[Tried]) -> str:
    """Say what results were judged by."""
    if not informative:
        return "none: it was not run"
    used = {one.outcome.oracle for one in informative}
    parts = []
    if "reference" in used:
        parts.append(f"the PyTorch reference {evidence.reference} in float64")
    if "widened" in used:
        parts.append("the original interpreted in float64")
    if used - {"reference", "widened"}:
        parts.append("the original's own results")
    places = [] if all(one.on_device for one in informative) else ["in Triton's interpreter"]
    places += ["on the GPU"] if any(one.on_device for one in informative) else []
    return f"{', '.join(parts)}; run {' and '.join(places)}"


def _of_original(tried: Sequence[Tried]) -> list[str]:
    notes = [one.outcome.note for one in tried if one.outcome.note]
    outside = next(
        (one for one in tried if one.outcome.status == "original-failed" and one.outcome.out_of_bounds), None
    )
    if outside is not None:
        call = describe(outside.variation.call)
        notes.append(f"The original itself leaves its buffers on {call}: {outside.outcome.detail}")
    return notes


def _checks(evidence: Evidence) -> dict[str, str]:
    """Say of each check whether it passed.

    Each looks at the inputs that can show its fault. The first failing input ends the comparison, so that checks whose
    inputs come later were not made.
    """
    tried = evidence.tried
    interpreted = [one for one in tried if not one.on_device]

    def about(*words: str) -> list[Tried]:
        return [one for one in tried if any(word in one.variation.about for word in words)]

    found = {
        "results": _check(evidence, tried, _wrong),
        "within bounds": _check(evidence, interpreted, lambda o: o.out_of_bounds),
        "inputs unchanged": _check(evidence, tried, lambda o: bool(o.inputs_changed)),
        "off the tile boundary": _check(evidence, about("tail", "over a tile"), _bad),
        "special values": _check(evidence, about("NaN", "Inf"), _bad),
        "empty": _check(evidence, about("empty"), _bad, "empty"),
        "strides": _check(evidence, about(*_MEMORY), _bad, *_MEMORY),
        "on the GPU": _check(evidence, [one for one in tried if one.on_device], _bad)
        if evidence.on_device
        else "skipped: no GPU here",
    }
    on_gpu = found["on the GPU"]
    found |= evidence.made
    if on_gpu.startswith("failed"):
        found["on the GPU"] = on_gpu
    return {name: found.get(name, REFUSED_BEFORE if evidence.over else "skipped: not made") for name in CHECKS}


_MEMORY = tuple(words for _, words in SPREADS)


def _bad(outcome: InputOutcome) -> bool:
    return outcome.status != "equal"


def _wrong(outcome: InputOutcome) -> bool:
    if outcome.status == "candidate-failed":
        return not outcome.out_of_bounds
    return outcome.status == "different" and not outcome.inputs_changed and not outcome.check


def _check(evidence: Evidence, tried: Sequence[Tried], is_bad: Callable[[InputOutcome], bool], *words: str) -> str:
    """Judge one check by its inputs; `words` are those of skipped inputs that would have belonged to it."""
    informative = [one for one in tried if one.outcome.status != "original-failed"]
    bad = next((one for one in informative if is_bad(one.outcome)), None)
    if bad:
        return f"failed: {bad.outcome.detail or bad.outcome.status} ({bad.variation.about})"
    if informative:
        return PASSED
    if tried:
        return f"skipped: the original fails on it: {tried[0].outcome.detail}"
    why = next((why for about, why in evidence.skipped if any(word in about for word in words)), "")
    if why:
        return f"skipped: {why}"
    return REFUSED_BEFORE if evidence.over else "skipped: no such input for this call"


def _outcome(outcome: InputOutcome) -> str:
    if outcome.status == "original-failed":
        return f"skipped, the original fails: {outcome.detail}"
    if outcome.status == "equal":
        return "equal" if not outcome.worst_error else f"equal within tolerance, worst error {outcome.worst_error:.1e}"
    return outcome.detail or outcome.status
