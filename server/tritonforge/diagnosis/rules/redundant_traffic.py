"""TF103: an input that every program reads from memory more than once."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.finding import evidence, gain_of, number, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.redundancy import redundancy
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline


def _look(case: Case) -> Iterable[Observation]:
    seen = redundancy(case)
    if seen is None or is_measured_near_roofline(case):
        return
    lines = ", ".join(str(access.range.start.line) for access in seen.accesses)
    yield Observation(
        severity="warning",
        range=seen.accesses[1].range,
        message=(
            f"`{seen.pointer}` is read {times(seen.times)} over (lines {lines}): the launch moves "
            f"{number(seen.moved / 1e6)} MB where {number(seen.useful / 1e6)} MB would do; keep the row in registers, "
            "or fold the passes into one."
        ),
        provenance=seen.provenance,
        evidence=evidence(
            ("times_read", seen.times, "1", seen.provenance),
            ("moved_bytes", seen.moved, "bytes", seen.provenance),
            ("useful_bytes", seen.useful, "bytes", "derived"),
            ("dram_bytes", metric(case, "dram_bytes"), "bytes", "measured"),
        ),
        estimated_gain=gain_of(seen.ratio),
    )


RULE = Rule("TF103", "redundant-global-traffic", "launch", _look)
