"""TF104: operands that programs share are fetched from memory again and again, because L2 has lost them."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.facts import traffic
from tritonforge.diagnosis.finding import evidence, gain_of, number, percent, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.spilling import spill

_AGAIN = 1.5
_BUSY = 0.5


def _look(case: Case) -> Iterable[Observation]:
    known, moved, busy = traffic(case), metric(case, "dram_bytes"), metric(case, "dram_throughput")
    if not case.kernel.dots or known is None or not known.useful or moved is None or busy is None:
        return
    spilled = spill(case)
    if spilled is not None and spilled.heavy:
        return  # that traffic is of local memory, and no order of programs mends it
    again = moved / known.useful
    if again < _AGAIN or busy < _BUSY:
        return
    hits = metric(case, "l2_hit_rate")
    found = f" ({percent(hits)} of L2 look-ups hit)" if hits is not None else ""
    yield Observation(
        severity="warning",
        range=case.kernel.name_range,
        message=(
            f"Memory delivers {number(moved / 1e9)} GB, {times(again)} what the operands and the result hold{found}: "
            "programs that run at the same time share too few rows and columns; order them in groups (the usual "
            "GROUP_M swizzle) or use larger tiles."
        ),
        provenance="measured",
        evidence=evidence(
            ("dram_bytes", moved, "bytes", "measured"),
            ("useful_bytes", known.useful, "bytes", "derived"),
            ("l2_hit_rate", hits, "1", "measured"),
            ("dram_throughput", busy, "1", "measured"),
        ),
        estimated_gain=gain_of(min(again, 1 / (1 - busy + busy / again))),
    )


RULE = Rule("TF104", "poor-l2-reuse", "counters", _look)
