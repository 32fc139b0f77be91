"""TF508: an access outside every buffer of the launch, seen in the guarded interpreter."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range
from tritonforge.diagnosis.rules.rule import Observation, Rule


def _look(case: Case) -> Iterable[Observation]:
    for fault in case.faults:
        if fault.kind == "out-of-bounds":
            yield Observation(
                severity="error",
                range=line_range(case.kernel, fault.line) if fault.line else case.kernel.name_range,
                message=f"Run in the interpreter, {fault.text}: mask the lanes that are outside, or mend the offsets.",
                provenance="measured",
                evidence=evidence(("access", fault.text, "", "measured")),
            )


RULE = Rule("TF508", "out-of-bounds-access", "source", _look)
