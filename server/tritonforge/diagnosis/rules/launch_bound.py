"""TF401: launches that take longer to start than to run."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, microseconds
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.domain.provenance import Provenance


def _look(case: Case) -> Iterable[Observation]:
    seen = launch_bound(case)
    if seen is None:
        return
    work = f" and its work {microseconds(seen.work_us)}" if seen.work_us is not None else ""
    yield Observation(
        severity="information",
        range=case.kernel.name_range,
        message=(
            f"It takes {microseconds(seen.time_us)}, where an empty launch takes {microseconds(seen.launch_us)}{work}: "
            "no change of the kernel helps much; fuse it with its neighbours, do more per launch, or capture a CUDA "
            "graph."
        ),
        provenance=seen.provenance,
        evidence=evidence(
            ("time", seen.time_us, "µs", seen.provenance),
            ("launch_time", seen.launch_us, "µs", _overhead(case)),
            ("work_time", seen.work_us, "µs", "derived"),
            ("programs", case.programs, "1", "source"),
        ),
    )


def _overhead(case: Case) -> Provenance:
    return "measured" if case.gpu is not None and case.gpu.ceilings.provenance == "measured" else "derived"


RULE = Rule("TF401", "launch-bound", "time", _look)
