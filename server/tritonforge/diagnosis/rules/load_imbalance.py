"""TF306: programs of unequal length, so that SMs wait for the last one."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, gain_of, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.imbalance import imbalance
from tritonforge.diagnosis.signals.launching import launch_bound


def _look(case: Case) -> Iterable[Observation]:
    seen = imbalance(case)
    if seen is None or seen.cause != "work" or launch_bound(case) is not None:
        return
    yield Observation(
        severity="warning",
        range=case.kernel.name_range,
        message=(
            f"An SM works {percent(seen.busy)} of the time that the busiest one does, where programs of equal length "
            f"would give {percent(seen.expected or 1.0)}: start the longest programs first, split them, or give each "
            "program a mix of long and short ones."
        ),
        provenance="measured",
        evidence=evidence(
            ("busy", seen.busy, "1", "measured"),
            ("busy_if_equal", seen.expected, "1", "derived"),
            ("programs", case.programs, "1", "source"),
            ("waves", seen.waves, "1", "measured"),
        ),
        estimated_gain=gain_of((seen.expected or 1.0) / seen.busy),
    )


RULE = Rule("TF306", "load-imbalance", "counters", _look)
