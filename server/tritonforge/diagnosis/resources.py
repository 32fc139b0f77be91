"""No cause is known: the resource that counters, the time model, or the measured roofline, find exhausted."""

from __future__ import annotations

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import busiest
from tritonforge.diagnosis.finding import microseconds, percent
from tritonforge.diagnosis.signals.pace import modelled_pace
from tritonforge.diagnosis.signals.roofline import standing
from tritonforge.diagnosis.signals.shared_passes import is_mostly_shared
from tritonforge.domain.finding import Bottleneck, BottleneckClass
from tritonforge.domain.provenance import Provenance

_FAR_OFF = 1.5
"""Measured over the upper end of the predicted time from which the model's parts explain nothing."""
_EXHAUSTED = 0.6
"""Share of a unit's peak from which the unit is what holds a launch back."""
_WORKING = frozenset({"selected", "not_selected"})
_RESOURCES: dict[str, BottleneckClass] = {
    "launch": "launch-bound",
    "dram": "dram-bandwidth",
    "l2": "l2-bandwidth",
    "shared": "shared-memory",
    "tensor": "tensor-core",
    "alu": "fp32-compute",
    "special": "special-function",
    "latency": "latency",
    "spill": "register-spill",
    "atomic": "atomic-contention",
}


_UNITS: dict[str, tuple[BottleneckClass, str]] = {
    "dram": ("dram-bandwidth", "device memory"),
    "l2": ("l2-bandwidth", "L2"),
    "shared": ("shared-memory", "shared memory"),
    "tensor": ("tensor-core", "the tensor cores"),
    "special": ("special-function", "the special-function units"),
    "fp32": ("fp32-compute", "ordinary arithmetic"),
    "issue": ("fp32-compute", "the instruction schedulers"),
}


def counted_resource(case: Case) -> Bottleneck | None:
    """No cause is known: name the unit that counters show at its peak, or the waiting when there is none."""
    top = busiest(case)
    if top is None:
        return None
    unit, share = top
    kind, words = _UNITS[unit]
    at = _sampled_line(case)
    if share >= _EXHAUSTED:
        sure = round(min(0.95, 0.5 + 0.5 * share), 2)
        return Bottleneck(kind, sure, "measured", f"It keeps {words} {percent(share)} busy, more than any other.", at)
    stalls = {name: s for name, s in (case.counters.stalls if case.counters else {}).items() if name not in _WORKING}
    reason = max(stalls, key=lambda name: stalls[name], default=None)
    if reason is None or sum(stalls.values()) < 0.5:
        return None
    return Bottleneck(
        "latency",
        0.6,
        "measured",
        f"No unit is busier than {percent(share)} ({words}), and warps wait: {percent(stalls[reason])} of the stall "
        f"samples for {reason.replace('_', ' ')}.",
        at,
    )


def _sampled_line(case: Case) -> int | None:
    lines = case.counters.lines if case.counters is not None else {}
    first, last = case.kernel.range.start.line, case.kernel.range.end.line
    inside = [n for n in lines if first <= n <= last and lines[n].samples]
    return max(inside, key=lambda n: lines[n].samples, default=None)


def exhausted_resource(case: Case) -> Bottleneck | None:
    """No cause is known: name the resource that counters, the model, or the measured roofline, find exhausted."""
    counted = counted_resource(case)
    if counted is not None:
        return counted
    prediction = case.prediction
    if prediction is not None and case.time is not None and case.time.median > _FAR_OFF * prediction.interval[1]:
        return Bottleneck(
            "unknown",
            0.0,
            "measured",
            f"It takes {microseconds(case.time.median)} where the model expects at most "
            f"{microseconds(prediction.interval[1])}, and no cause of the catalogue explains the difference.",
        )
    if prediction is not None and (dominant := modelled_pace(prediction)) in _RESOURCES:
        parts = sorted(prediction.parts.items(), key=lambda part: -part[1])
        first, second = parts[0][1] if parts else 0.0, parts[1][1] if len(parts) > 1 else 0.0
        distance = 1.0 - second / first if first > 0 else 0.0
        share = prediction.parts.get(dominant, 0.0)
        kind = _RESOURCES[dominant]
        if kind == "fp32-compute" and is_mostly_shared(case):
            kind = "shared-memory"
        return Bottleneck(
            kind,
            round(0.4 + 0.4 * distance, 2),
            _provenance(case),
            f"The model finds {dominant} exhausted: {microseconds(share)} of {microseconds(prediction.time_us)}.",
            longest_line(case),
        )
    known = standing(case)
    if known is not None and known.fraction >= 0.5:
        kind = "dram-bandwidth" if known.bound == "memory" else "tensor-core"
        return Bottleneck(
            kind, 0.5, known.provenance, f"It reaches {percent(known.fraction)} of the {known.bound} roofline."
        )
    return None


def _provenance(case: Case) -> Provenance:
    return "predicted" if case.time is None else "derived"


def longest_line(case: Case) -> int | None:
    """The line that moves the most bytes, or computes the most, in one program."""
    compiled = case.compiled
    if compiled is None or compiled.work is None or not compiled.work.lines:
        return None
    lines = compiled.work.lines
    return max(lines, key=lambda n: (lines[n].load_bytes + lines[n].store_bytes, lines[n].dot_flops, -n))
