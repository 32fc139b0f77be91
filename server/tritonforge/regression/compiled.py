"""What can be compared without a GPU: what the compiler made of a kernel, and what the time model says of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonforge.compilation.architectures import architecture
from tritonforge.diagnosis.assessment import Assessed
from tritonforge.domain.baseline import BaselineEntry, Fact
from tritonforge.domain.finding import SEVERITIES
from tritonforge.report import wording

PREDICTED_EFFECT = 0.10
"""The time model does not tell smaller differences between two versions of one kernel apart."""
SPILL_BYTES = 16
"""Spilling a few registers more costs nothing that could be measured."""


def facts_of(one: Assessed) -> dict[str, Fact]:
    """Return the compiled facts of a launch that a baseline keeps."""
    compilation = one.compilation
    if compilation.error is not None:
        return {"error": " ".join(compilation.error.split())[:300]}
    facts: dict[str, Fact] = {"tensor_path": compilation.tensor_path}
    if (resources := compilation.resources) is not None:
        facts |= {
            "registers": resources.registers,
            "spill_bytes": resources.spill_bytes,
            "shared_bytes": resources.shared_bytes,
        }
    if compilation.occupancy is not None:
        facts["occupancy"] = compilation.occupancy.fraction
    if one.prediction is not None:
        facts["predicted_us"] = one.prediction.time_us
    return facts


@dataclass(frozen=True)
class Compiled:
    """What came of comparing compiled facts: `reasons` it is worse, `notes`, and the ratio of predicted times."""

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ratio: float | None = None


def compare_compiled(
    before: BaselineEntry, after: BaselineEntry, recorded: Mapping[str, Fact] | None = None
) -> Compiled:
    """Compare what the compiler made of a launch with what it had made of it for the baseline.

    `recorded`: the facts of the version that the baseline recorded, compiled again by today's compiler and judged by
    today's time model, where that was possible. What differs between the versions then is the code's doing; what does
    not is the doing of another compiler, or another version of this tool.
    """
    old, new = before.compiled, after.compiled
    since = _since(before, after)
    reasons: list[str] = []
    notes: list[str] = []
    if "error" in new:
        if "error" not in old:
            reasons.append(f"it no longer compiles for {after.arch}{_cause(recorded, 'error', since)}: {new['error']}")
        return Compiled(tuple(reasons), tuple(notes))
    if "error" in old:
        return Compiled((), (f"it compiles for {after.arch} now",))
    spills = _number(new, "spill_bytes") - _number(old, "spill_bytes")
    if spills > SPILL_BYTES:
        said = (
            f"{wording.size(_number(new, 'spill_bytes'))} per thread, was {wording.size(_number(old, 'spill_bytes'))}"
        )
        reasons.append(f"it spills more registers{_cause(recorded, 'spill_bytes', since, new)}: {said}")
    limits = architecture(after.arch)
    shared = _number(new, "shared_bytes")
    if limits is not None and shared > limits.shared_per_program >= _number(old, "shared_bytes"):
        most = wording.size(limits.shared_per_program)
        reasons.append(f"it needs {wording.size(shared)} of shared memory, and {after.arch} gives a program {most}")
    elif "occupancy" in old and "occupancy" not in new:
        reasons.append(f"no program of it fits on an SM of {after.arch} any more")
    grave = SEVERITIES.index("error")
    for code, severity in after.findings.items():
        if SEVERITIES.index(severity) <= grave and code not in before.findings:
            reasons.append(f"{code} is a new finding of severity {severity}")
    ratio = _ratio(old, new)
    if ratio is not None and ratio >= 1.0 + PREDICTED_EFFECT:
        again = _ratio(recorded, new) if recorded is not None else ratio
        if again is None or again >= 1.0 + PREDICTED_EFFECT:
            ratio = again or ratio
            times = f"{_time(old)} → {_time(new)}"
            reasons.append(f"it is predicted to take {ratio:.2f}x as long ({times}, predicted)")
        elif since:
            reasons.append(f"it is predicted to take {ratio:.2f}x as long since {since}; the code is not what changed")
        else:
            notes.append("predicted times differ from the baseline's for the recorded version, too: the model changed")
            ratio = again
    elif recorded is not None and (again := _ratio(recorded, new)) is not None:
        ratio = again
    return Compiled(tuple(reasons), tuple(notes), ratio)


def _cause(recorded: Mapping[str, Fact] | None, fact: str, since: str, new: Mapping[str, Fact] | None = None) -> str:
    """Name the compiler where it is the one that changed: the recorded version fares as badly with it."""
    if recorded is None or not since:
        return ""
    worse = fact in recorded if new is None else _number(recorded, fact) >= _number(new, fact) - SPILL_BYTES
    return f" since {since}, whose compiler does the same to the recorded version" if worse else ""


def _since(before: BaselineEntry, after: BaselineEntry) -> str:
    one, other = before.versions.get("triton"), after.versions.get("triton")
    return f"Triton {other} (was {one})" if one and other and one != other else ""


def _ratio(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> float | None:
    one, other = old.get("predicted_us"), new.get("predicted_us")
    if not isinstance(one, int | float) or not isinstance(other, int | float) or one <= 0 or other <= 0:
        return None
    return float(other) / float(one)


def _time(facts: Mapping[str, Fact]) -> str:
    return wording.time_us(_number(facts, "predicted_us"))


def _number(facts: Mapping[str, Fact], name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
