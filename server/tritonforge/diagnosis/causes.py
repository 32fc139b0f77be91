"""The causes of slowness that can be named, each a small function from a `Case` to a `Bottleneck`, in order.

Order matters where two are true at once: a grid of one program makes its loop slow too, and a spilling tile also has
low occupancy. What comes first is what must be mended first.
"""

from __future__ import annotations

from collections.abc import Callable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, waits_for_memory
from tritonforge.diagnosis.finding import microseconds, number, percent, times
from tritonforge.diagnosis.resources import longest_line
from tritonforge.diagnosis.signals.atomics import contention
from tritonforge.diagnosis.signals.block import small_block
from tritonforge.diagnosis.signals.coalescing import strided_access
from tritonforge.diagnosis.signals.grid import idle_sms
from tritonforge.diagnosis.signals.imbalance import Imbalance, imbalance, tail
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.matrix_units import ordinary_dot
from tritonforge.diagnosis.signals.occupancy import low_occupancy
from tritonforge.diagnosis.signals.pace import modelled_pace
from tritonforge.diagnosis.signals.redundancy import redundancy
from tritonforge.diagnosis.signals.roofline import AT_ROOFLINE, standing
from tritonforge.diagnosis.signals.scalar_loop import dominant_scalar_loop
from tritonforge.diagnosis.signals.spilling import spill
from tritonforge.diagnosis.signals.tile import small_tile
from tritonforge.domain.finding import Bottleneck

Detector = Callable[[Case], Bottleneck | None]

_HALF_THE_GPU = 0.5
_WAITS = 0.4
_OF_EACH_SM = frozenset(["shared", "tensor", "alu", "special", "latency"])
"""Parts of the time model that each SM has of its own."""


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
        longest_line(case),
    )


def element_loop(case: Case) -> Bottleneck | None:
    """One element per iteration is the serial length of the program."""
    scalar = dominant_scalar_loop(case)
    if scalar is None or (scalar.iterations is None and scalar.samples is None):
        return None
    rounds = f"A loop of {number(scalar.iterations)} iterations" if scalar.iterations is not None else "A loop"
    seen = f", and {percent(scalar.samples)} of the stall samples are in it" if scalar.samples is not None else ""
    return Bottleneck(
        "scalar-loop",
        0.9,
        "measured" if scalar.samples is not None else "compiled",
        f"{rounds} loads one element each time, with {scalar.lanes} lanes waiting{seen}.",
        scalar.loop.range.start.line,
    )


def spilling(case: Case) -> Bottleneck | None:
    """Local memory traffic of spilled registers rivals the kernel's own."""
    seen = spill(case)
    if seen is None or not seen.heavy:
        return None
    per_thread = f"{number(seen.bytes_per_thread)} bytes per thread" if seen.bytes_per_thread else "Registers"
    share = f", {times(seen.share)} its global traffic" if seen.share is not None else ""
    return Bottleneck(
        "register-spill",
        0.9 if seen.share is not None and seen.share >= 1 else 0.7,
        seen.provenance,
        f"{per_thread} spill to local memory{share}.",
        seen.lines[0][0] if seen.lines else None,
    )


def queueing_atomics(case: Case) -> Bottleneck | None:
    """Atomics on few addresses take longer than everything else."""
    seen = contention(case)
    if seen is None:
        return None
    count = number(seen.operations) if seen.operations is not None else "The"
    each = f", {number(seen.per_address)} per address" if seen.per_address is not None else ""
    claims = []
    if seen.atomics_us is not None and seen.floor_us is not None:
        claims.append(f"take about {microseconds(seen.atomics_us)}, everything else {microseconds(seen.floor_us)}")
    if seen.waiting is not None:
        claims.append(f"have {percent(seen.waiting)} of the stall samples")
    return Bottleneck(
        "atomic-contention",
        0.9 if seen.waiting is not None and seen.atomics_us is not None else 0.8,
        "measured" if seen.waiting is not None else "derived",
        f"{count} atomics{each} {', and '.join(claims)}.",
        seen.atomic.range.start.line,
    )


def plain_arithmetic_dot(case: Case) -> Bottleneck | None:
    """A dot that compiled to ordinary multiply-adds."""
    seen = ordinary_dot(case)
    if seen is None:
        return None
    takes = f" and need {microseconds(seen.dots_us)} there" if seen.dots_us is not None else ""
    busy = f" and keep it {percent(seen.arithmetic)} busy" if seen.arithmetic is not None else ""
    return Bottleneck(
        "no-tensor-core",
        0.9,
        seen.provenance,
        f"The dots run on ordinary arithmetic{takes}{busy}; no matrix instruction is in the compiled code.",
        case.kernel.dots[0].range.start.line,
    )


def little_reuse(case: Case) -> Bottleneck | None:
    """The dot's tile loads more than L2 can deliver."""
    small = small_tile(case)
    if small is None or small.needed is None or small.loads is None:
        return None
    floor = f" to do what could be done in {microseconds(small.floor_us)}" if small.floor_us is not None else ""
    return Bottleneck(
        "tile-too-small",
        0.8,
        small.provenance,
        f"{number(small.intensity)} FLOP per loaded byte where about {number(small.needed)} keep the tensor cores "
        f"busy: the programs ask for {number(small.loads / 1e9)} GB{floor}.",
        case.kernel.dots[0].range.start.line,
    )


def tiny_programs(case: Case) -> Bottleneck | None:
    """Starting programs takes longer than what they do."""
    small = small_block(case)
    if small is None or small.start_us is None or small.bytes_per_warp is None:
        return None
    moving = f", moving the bytes {microseconds(small.floor_us)}" if small.floor_us is not None else ""
    whole = case.time_us if small.floor_us is None else None
    of = f" of {microseconds(whole)}" if whole is not None else ""
    return Bottleneck(
        "block-too-small",
        0.85,
        small.provenance,
        f"{number(small.programs or 0)} programs of {number(small.bytes_per_warp)} bytes per warp: starting them takes "
        f"about {microseconds(small.start_us)}{of}{moving}.",
        case.kernel.accesses[0].range.start.line if case.kernel.accesses else None,
    )


def far_apart_lanes(case: Case) -> Bottleneck | None:
    """Each lane pulls in a sector of which it uses a little."""
    seen = strided_access(case)
    if seen is None:
        return None
    return Bottleneck(
        "uncoalesced-access",
        0.9 if seen.provenance == "measured" else 0.8,
        seen.provenance,
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
        seen.provenance,
        f"`{seen.pointer}` is read {times(seen.times)} over: the launch moves {number(seen.moved / 1e6)} MB where "
        f"{number(seen.useful / 1e6)} MB would do.",
        seen.accesses[1].range.start.line,
    )


def uneven_programs(case: Case) -> Bottleneck | None:
    """SMs wait for the last one, because programs differ or the last wave is nearly empty."""
    seen = imbalance(case) or _modelled_tail(case)
    if seen is None:
        return None
    if seen.cause == "tail":
        waves = f" ({number(seen.waves)} waves)" if seen.waves is not None else ""
        return Bottleneck(
            "grid-too-small",
            0.7 if seen.provenance == "measured" else 0.6,
            seen.provenance,
            f"An SM works {percent(seen.busy)} of the time on average, as {number(case.programs or 0)} programs leave "
            f"most SMs without one in the last round{waves}.",
        )
    return Bottleneck(
        "load-imbalance",
        0.75,
        seen.provenance,
        f"An SM works {percent(seen.busy)} of the time that the busiest one does, where equal programs would keep it "
        f"at {percent(seen.expected or 1.0)}.",
    )


def _modelled_tail(case: Case) -> Imbalance | None:
    """A last wave that is nearly empty costs time only where each SM works on its own, not where all share memory."""
    if case.prediction is None or modelled_pace(case.prediction) not in _OF_EACH_SM:
        return None
    return tail(case)


def few_warps(case: Case) -> Bottleneck | None:
    """Latency that more resident warps would hide."""
    low = low_occupancy(case)
    if low is None:
        return None
    if case.counters is not None:
        waiting = waits_for_memory(case)
        if waiting < _WAITS:
            return None
        resident = low.achieved if low.achieved is not None else low.occupancy.fraction
        return Bottleneck(
            "low-occupancy",
            0.7,
            "measured",
            f"{percent(resident)} of an SM's warps are resident, limited by {low.occupancy.limiter}, no unit is busy, "
            f"and {percent(waiting)} of the stall samples wait for memory.",
        )
    if case.prediction is None or modelled_pace(case.prediction) != "latency":
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
    uneven_programs,
    few_warps,
)
