"""TF506: programs of one launch that write the same address without atomics."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.races import Clash, clashes


def _look(case: Case) -> Iterable[Observation]:
    seen = [fault for fault in case.faults if fault.kind != "out-of-bounds"]
    for fault in seen:
        yield Observation(
            severity="error" if fault.kind == "write-write" else "warning",
            range=line_range(case.kernel, fault.line) if fault.line else case.kernel.name_range,
            message=f"{fault.text}, with no atomic or other order between them: which of them comes first is chance.",
            provenance="measured",
            evidence=evidence(("conflict", fault.kind, "", "measured")),
        )
    for clash in clashes(case) if not seen else ():
        yield Observation(
            severity="warning" if case.launch is not None else "information",
            range=clash.reach.range,
            message=_message(clash),
            provenance="source",
            evidence=evidence(
                ("axis", clash.axis, "", "source"),
                ("programs_along_axis", clash.programs, "1", "source"),
                ("pointer", clash.reach.pointers[0], "", "source"),
            ),
        )


def _message(clash: Clash) -> str:
    programs = f"all {number(clash.programs)}" if clash.programs else "all"
    return (
        f"The address of this store does not depend on tl.program_id({clash.axis}), but the value does: {programs} "
        f"programs along that axis write their own value to the same elements of `{clash.reach.pointers[0]}`, and the "
        "last one stays; use an atomic, write partial results, or let one program store."
    )


RULE = Rule("TF506", "data-race", "source", _look)
