"""TF106: registers that spill to local memory."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.roofline import is_at_roofline, is_measured_near_roofline
from tritonforge.diagnosis.signals.spilling import Spill, spill
from tritonforge.domain.finding import Severity


def _look(case: Case) -> Iterable[Observation]:
    seen = spill(case)
    if seen is None or (case.time is not None and is_at_roofline(case)):
        return
    counted = seen.provenance == "measured"
    yield Observation(
        severity=_severity(case, seen),
        range=line_range(case.kernel, seen.lines[0][0]) if seen.lines else case.kernel.name_range,
        message=_message(seen),
        provenance=seen.provenance,
        evidence=evidence(
            ("spill_bytes", seen.bytes_per_thread, "bytes per thread", "compiled"),
            ("registers", seen.registers, "registers per thread", "compiled"),
            ("lines", ", ".join(str(line) for line, _ in seen.lines) or None, "line numbers", "compiled"),
            ("local_instructions", sum(count for _, count in seen.lines) or None, "1", "compiled"),
            (
                "local_bytes" if counted else "local_bytes_per_program",
                seen.program_bytes,
                "bytes",
                "measured" if counted else "derived",
            ),
            ("local_to_global", seen.share, "1", "measured" if counted else "derived"),
        ),
    )


def _severity(case: Case, seen: Spill) -> Severity:
    if is_measured_near_roofline(case):
        return "hint"
    return "warning" if seen.heavy else "information"


def _message(seen: Spill) -> str:
    traffic = (
        f", {number(seen.share)} bytes of local memory traffic for each byte of global"
        if seen.share is not None and seen.heavy
        else ""
    )
    where = f"; most of it is on line {seen.lines[0][0]}" if seen.lines else ""
    values = f"{number(seen.bytes_per_thread)} bytes per thread do" if seen.bytes_per_thread else "Some values do"
    registers = f"{seen.registers} registers" if seen.registers is not None else "the registers of a thread"
    return (
        f"{values} not fit into {registers} and live in local memory{traffic}{where}: use a smaller tile, more warps "
        "or fewer values alive at once."
    )


RULE = Rule("TF106", "local-memory-traffic", "launch", _look, tunable=True)
