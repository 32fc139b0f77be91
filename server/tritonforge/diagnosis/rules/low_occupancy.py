"""TF301: too few warps per SM to hide latency, where that can matter."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import waits_for_memory
from tritonforge.diagnosis.finding import evidence, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.occupancy import LowOccupancy, low_occupancy
from tritonforge.diagnosis.signals.pace import modelled_pace
from tritonforge.diagnosis.signals.roofline import standing
from tritonforge.domain.provenance import Provenance

_WAITS = 0.4


def _look(case: Case) -> Iterable[Observation]:
    low = low_occupancy(case)
    if low is None:
        return
    known = standing(case)
    slow = known is not None and known.provenance == "measured"
    if case.counters is not None:
        waits = waits_for_memory(case) >= _WAITS
    else:
        waits = case.prediction is not None and modelled_pace(case.prediction) == "latency"
    origin: Provenance = "compiled" if case.compiled is not None else "measured"
    yield Observation(
        severity="warning" if slow or waits else "information",
        range=case.kernel.name_range,
        message=_message(low),
        provenance="measured" if low.achieved is not None else "compiled",
        evidence=evidence(
            ("occupancy", low.occupancy.fraction, "1", origin),
            ("achieved_occupancy", low.achieved, "1", "measured"),
            ("limiter", low.occupancy.limiter, "1", origin),
            ("programs_per_sm", low.occupancy.programs_per_sm, "1", origin),
            ("warps_per_sm", low.occupancy.warps_per_sm, "1", origin),
            ("registers", low.resources.registers, "registers per thread", origin),
            ("shared_bytes", low.resources.shared_bytes, "bytes per program", origin),
            ("registers_for_next_step", low.registers_for_next, "registers per thread", "derived"),
            ("shared_bytes_for_next_step", low.shared_for_next, "bytes per program", "derived"),
            (
                "roofline_fraction",
                known.fraction if known is not None else None,
                "1",
                known.provenance if known is not None else "derived",
            ),
        ),
    )


def _message(low: LowOccupancy) -> str:
    now = low.occupancy
    programs = "1 program" if now.programs_per_sm == 1 else f"{now.programs_per_sm} programs"
    begin = f"Only {percent(now.fraction)} of an SM's warps are resident ({programs} of {low.warps} warps)"
    if now.limiter == "registers":
        step = (
            f"; one more program fits at {low.registers_for_next} registers"
            if low.registers_for_next is not None
            else ""
        )
        return f"{begin} because each thread takes {low.resources.registers} registers{step}."
    step = f"; one more program fits at {number(low.shared_for_next)} bytes" if low.shared_for_next is not None else ""
    return f"{begin} because each takes {number(low.resources.shared_bytes)} bytes of shared memory{step}."


RULE = Rule("TF301", "low-occupancy", "launch", _look, tunable=True)
