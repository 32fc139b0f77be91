"""TF105: conflicts between banks of shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.finding import evidence, line_range, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.bank_conflicts import bank_conflicts
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline

_BUSY = 0.6


def _look(case: Case) -> Iterable[Observation]:
    seen = bank_conflicts(case)
    if seen is None or is_measured_near_roofline(case):
        return
    throughput = metric(case, "l1_throughput")
    yield Observation(
        severity="warning" if (throughput or 0.0) >= _BUSY else "information",
        range=line_range(case.kernel, seen.line) if seen.line is not None else case.kernel.name_range,
        message=(
            f"{percent(seen.excess)} of the passes through shared memory come from bank conflicts "
            f"({number(seen.wavefronts)} where {number(seen.ideal)} would do): change the tile's shape, the order of "
            "its axes or num_warps, so that the compiler finds a layout without them."
        ),
        provenance="measured",
        evidence=evidence(
            ("shared_wavefronts", seen.wavefronts, "1", "measured"),
            ("ideal_shared_wavefronts", seen.ideal, "1", "measured"),
            ("excess", seen.excess, "1", "measured"),
            ("l1_throughput", throughput, "1", "measured"),
        ),
    )


RULE = Rule("TF105", "shared-memory-bank-conflicts", "counters", _look)
