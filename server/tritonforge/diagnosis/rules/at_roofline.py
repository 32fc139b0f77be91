"""TF900: nothing to gain, and why."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.roofline import AT_ROOFLINE, standing
from tritonforge.domain.provenance import Provenance


def _look(case: Case) -> Iterable[Observation]:
    known = standing(case)
    if known is None or known.fraction < AT_ROOFLINE:
        return
    measured = known.provenance == "measured"
    what = "memory" if known.bound == "memory" else "compute"
    verb = "Runs" if measured else "Is predicted to run"
    yield Observation(
        severity="information" if measured else "hint",
        range=case.kernel.name_range,
        message=(
            f"{verb} at {percent(known.fraction)} of the {what} roofline ({number(known.achieved)} of "
            f"{number(known.ceiling)} {known.unit}): as it stands there is nothing to gain but by "
            f"{'moving fewer bytes' if known.bound == 'memory' else 'computing less or in a smaller type'}."
        ),
        provenance=known.provenance,
        evidence=evidence(
            ("roofline_fraction", known.fraction, "1", known.provenance),
            ("achieved", known.achieved, known.unit, known.provenance),
            ("ceiling", known.ceiling, known.unit, _ceiling(case)),
            ("time", case.time_us, "µs", case.time_provenance),
        ),
    )


def _ceiling(case: Case) -> Provenance:
    public = case.gpu is not None and case.gpu.ceilings.provenance == "public"
    return "derived" if public else "measured"


RULE = Rule("TF900", "at-roofline", "time", _look)
