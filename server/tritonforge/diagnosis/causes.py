"""The causes of slowness that can be named, each a small function from a `Case` to a `Bottleneck`, in order.

Order matters where two are true at once: a grid of one program makes its loop slow too, and a spilling tile also has
low occupancy. What comes first is what must be mended first.
"""

from __future__ import annotations

from collections.abc import Callable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import floor, traffic, uses_tensor_cores
from tritonforge.diagnosis.finding import microseconds, number, percent, times
from tritonforge.diagnosis.signals.atomics import contention
from tritonforge.diagnosis.signals.block import small_block
from tritonforge.diagnosis.signals.coalescing import SECTOR, strided_access
from tritonforge.diagnosis.signals.grid import idle_sms
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.occupancy import low_occupancy
from tritonforge.diagnosis.signals.redundancy import redundancy
from tritonforge.diagnosis.signals.roofline import AT_ROOFLINE, standing
from tritonforge.diagnosis.signals.scalar_loop import dominant_scalar_loop
from tritonforge.diagnosis.signals.spilling import spill
from tritonforge.diagnosis.signals.tile import small_tile
from tritonforge.domain.finding import Bottleneck, BottleneckClass
from tritonforge.domain.provenance import Provenance

Detector = Callable[[Case], Bottleneck | None]

_HALF_THE_GPU = 0.5
_FAR_OFF = 1.5
"""Measured over the upper end of the predicted time from which the model's parts explain nothing."""


def at_roofline(case: Case) -> Bottleneck | None:
    """A measurement says that there is nothing to gain: whatever the source looks like, it is fast."""
    known = standing(case)
    if known is None or known.provenance != "measured" or known.fraction < AT_ROOFLINE:
        return None
    resource = "copy bandwidth" if known.bound == "memory" else "the compute ceiling"
    return Bottleneck(
        "at-roofline",
        min(1.0, 0.5 + 0.5 * known.fraction),
        "measured",
        f"It runs at {percent(known.fraction)} of {resource} "
        f"({number(known.achieved)} of {number(known.ceiling)} {known.unit}).",
    )


def launching(case: Case) -> Bottleneck | None:
    """The launch itself takes longer than the work."""
    seen = launch_bound(case)
    if seen is None:
        return None
    work = f", while the work needs {microseconds(seen.work_us)}" if seen.work_us is not None else ""
    return Bottleneck(
        "launch-bound",
        0.9 if seen.provenance == "measured" else 0.7,
        seen.provenance,
        f"It takes {microseconds(seen.time_us)} and an empty launch takes {microseconds(seen.launch_us)}{work}.",
    )


def few_programs(case: Case) -> Bottleneck | None:
    """Most SMs have nothing to do."""
    idle = idle_sms(case)
    if idle is None or idle.busy > _HALF_THE_GPU:
        return None
    return Bottleneck(
        "grid-too-small",
        0.9,
        "derived",
        f"{number(idle.programs)} program{'' if idle.programs == 1 else 's'} for {idle.sms} SMs.",
        _longest_line(case),
    )


def element_loop(case: Case) -> Bottleneck | None:
    """One element per iteration is the serial length of the program."""
    scalar = dominant_scalar_loop(case)
    if scalar is None or scalar.iterations is None:
        return None
    return Bottleneck(
        "scalar-loop",
        0.9,
        "compiled",
        f"A loop of {number(scalar.iterations)} iterations loads one element each, with {scalar.lanes} lanes waiting.",
        scalar.loop.range.start.line,
    )


def spilling(case: Case) -> Bottleneck | None:
    """Local memory traffic of spilled registers rivals the kernel's own."""
    seen = spill(case)
    if seen is None or not seen.heavy:
        return None
    share = f", {times(seen.share)} its global traffic" if seen.share is not None else ""
    return Bottleneck(
        "register-spill",
        0.9 if seen.share is not None and seen.share >= 1 else 0.7,
        "compiled",
        f"{number(seen.bytes_per_thread)} bytes per thread spill to local memory{share}.",
        seen.lines[0][0] if seen.lines else None,
    )


def queueing_atomics(case: Case) -> Bottleneck | None:
    """Atomics on few addresses take longer than everything else."""
    seen = contention(case)
    if seen is None:
        return None
    each = f", {number(seen.per_address)} per address" if seen.per_address is not None else ""
    return Bottleneck(
        "atomic-contention",
        0.8,
        "derived",
        f"{number(seen.operations)} atomics{each} take about {microseconds(seen.atomics_us)}, "
        f"everything else {microseconds(seen.floor_us)}.",
        seen.atomic.range.start.line,
    )


def plain_arithmetic_dot(case: Case) -> Bottleneck | None:
    """A dot that compiled to ordinary multiply-adds."""
    known, least = traffic(case), floor(case)
    compiled = case.compiled
    if compiled is None or known is None or least is None or case.gpu is None or not case.kernel.dots:
        return None
    if uses_tensor_cores(case) or known.dot_flops <= 0:
        return None
    ordinary = case.gpu.ceilings.tflops.get("fp32")
    dots_us = known.dot_flops / (ordinary * 1e6) if ordinary else None
    if dots_us is not None and dots_us < least.memory_us:
        return None
    takes = f" and need {microseconds(dots_us)} there" if dots_us is not None else ""
    return Bottleneck(
        "no-tensor-core",
        0.9,
        "compiled",
        f"The dots compile to ordinary multiply-adds{takes}; no matrix instruction is in the compiled code.",
        case.kernel.dots[0].range.start.line,
    )


def little_reuse(case: Case) -> Bottleneck | None:
    """The dot's tile loads more than L2 can deliver."""
    small = small_tile(case)
    if small is None or small.needed is None or small.loads is None or small.floor_us is None:
        return None
    return Bottleneck(
        "tile-too-small",
        0.8,
        "derived",
        f"{number(small.intensity)} FLOP per loaded byte where about {number(small.needed)} keep the tensor cores "
        f"busy: the programs ask for {number(small.loads / 1e9)} GB to do what could be done in "
        f"{microseconds(small.floor_us)}.",
        case.kernel.dots[0].range.start.line,
    )


def tiny_programs(case: Case) -> Bottleneck | None:
    """Starting programs takes longer than what they do."""
    small = small_block(case)
    if small is None or small.start_us is None or small.floor_us is None or small.bytes_per_warp is None:
        return None
    return Bottleneck(
        "block-too-small",
        0.85,
        "derived",
        f"{number(small.programs or 0)} programs of {number(small.bytes_per_warp)} bytes per warp: starting them takes "
        f"about {microseconds(small.start_us)}, moving the bytes {microseconds(small.floor_us)}.",
        case.kernel.accesses[0].range.start.line if case.kernel.accesses else None,
    )


def far_apart_lanes(case: Case) -> Bottleneck | None:
    """Each lane pulls in a sector of which it uses a little."""
    seen = strided_access(case)
    if seen is None:
        return None
    return Bottleneck(
        "uncoalesced-access",
        0.8,
        "derived",
        f"Neighbouring lanes are far apart in memory: {percent(seen.efficiency)} of the {SECTOR}-byte sectors fetched "
        f"here is used, and such lines fetch {percent(seen.share)} of the launch's traffic.",
        seen.line,
    )


def read_again(case: Case) -> Bottleneck | None:
    """The same input is read in more than one pass."""
    seen = redundancy(case)
    if seen is None:
        return None
    return Bottleneck(
        "redundant-traffic",
        0.75,
        "derived",
        f"`{seen.pointer}` is read {times(seen.times)} over: the launch moves {number(seen.moved / 1e6)} MB where "
        f"{number(seen.useful / 1e6)} MB would do.",
        seen.accesses[1].range.start.line,
    )


def few_warps(case: Case) -> Bottleneck | None:
    """Latency that more resident warps would hide."""
    low = low_occupancy(case)
    if low is None or case.prediction is None or case.prediction.dominant != "latency":
        return None
    return Bottleneck(
        "low-occupancy",
        0.5,
        "derived",
        f"{percent(low.occupancy.fraction)} of an SM's warps are resident, limited by {low.occupancy.limiter}, "
        "and waiting dominates the modelled time.",
    )


CAUSES: tuple[Detector, ...] = (
    at_roofline,
    launching,
    few_programs,
    element_loop,
    spilling,
    queueing_atomics,
    plain_arithmetic_dot,
    tiny_programs,
    far_apart_lanes,
    little_reuse,
    read_again,
    few_warps,
)

_RESOURCES: dict[str, BottleneckClass] = {
    "launch": "launch-bound",
    "dram": "dram-bandwidth",
    "l2": "l2-bandwidth",
    "tensor": "tensor-core",
    "alu": "fp32-compute",
    "special": "special-function",
    "latency": "latency",
    "spill": "register-spill",
    "atomic": "atomic-contention",
}


def exhausted_resource(case: Case) -> Bottleneck | None:
    """No cause is known: name the resource that the model, or the measured roofline, finds exhausted."""
    prediction = case.prediction
    if prediction is not None and case.time is not None and case.time.median > _FAR_OFF * prediction.interval[1]:
        return Bottleneck(
            "unknown",
            0.0,
            "measured",
            f"It takes {microseconds(case.time.median)} where the model expects at most "
            f"{microseconds(prediction.interval[1])}, and no cause of the catalogue explains the difference.",
        )
    if prediction is not None and prediction.dominant in _RESOURCES:
        parts = sorted(prediction.parts.items(), key=lambda part: -part[1])
        first, second = parts[0][1] if parts else 0.0, parts[1][1] if len(parts) > 1 else 0.0
        distance = 1.0 - second / first if first > 0 else 0.0
        share = prediction.parts.get(prediction.dominant, 0.0)
        return Bottleneck(
            _RESOURCES[prediction.dominant],
            round(0.4 + 0.4 * distance, 2),
            _provenance(case),
            f"The model finds {prediction.dominant} exhausted: {microseconds(share)} of "
            f"{microseconds(prediction.time_us)}.",
            _longest_line(case),
        )
    known = standing(case)
    if known is not None and known.fraction >= 0.5:
        kind: BottleneckClass = "dram-bandwidth" if known.bound == "memory" else "tensor-core"
        return Bottleneck(
            kind, 0.5, known.provenance, f"It reaches {percent(known.fraction)} of the {known.bound} roofline."
        )
    return None


def _provenance(case: Case) -> Provenance:
    return "predicted" if case.time is None else "derived"


def _longest_line(case: Case) -> int | None:
    """The line that moves the most bytes, or computes the most, in one program."""
    compiled = case.compiled
    if compiled is None or compiled.work is None or not compiled.work.lines:
        return None
    lines = compiled.work.lines
    return max(lines, key=lambda n: (lines[n].load_bytes + lines[n].store_bytes, lines[n].dot_flops, -n))
