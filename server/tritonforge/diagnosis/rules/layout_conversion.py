"""TF110: blocks change their register layout through shared memory in every iteration."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number, times
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.conversions import Converted, converted

_WAITED_FOR = 0.2


def _look(case: Case) -> Iterable[Observation]:
    seen = converted(case)
    if seen is None:
        return
    conversion = seen.conversion
    yield Observation(
        severity="warning" if seen.decides or (seen.waiting or 0.0) >= _WAITED_FOR else "information",
        range=line_range(case.kernel, conversion.line),
        message=_message(seen),
        provenance="compiled",
        evidence=evidence(
            ("conversion", f"{conversion.source} → {conversion.target}", "1", "compiled"),
            ("block", "×".join(map(str, conversion.shape)), "1", "compiled"),
            ("executions", conversion.executions, "1", "compiled"),
            ("conversions", seen.count, "1", "compiled"),
            ("shared_to_global_bytes", seen.ratio, "1", "derived"),
            ("stall_samples", seen.waiting, "1", "measured"),
        ),
    )


def _message(seen: Converted) -> str:
    conversion = seen.conversion
    advice = (
        "What is added up here has the layout of a dot's result: add it up in a block of its own, and join both after "
        "the loop."
        if conversion.target in {"mma", "mfma", "wmma"}
        else "Load the operands in one layout (the same shape and order of axes), transpose once in front of the loop, "
        "or convert what is smaller."
    )
    block = "×".join(map(str, conversion.shape))
    return (
        f"A {block} block moves from one register layout ({conversion.source}) to another ({conversion.target}) "
        f"through shared memory in each of {number(conversion.executions or 0)} iterations; conversions in loops move "
        f"{times(seen.ratio)} the bytes of global memory. {advice}"
    )


RULE = Rule("TF110", "layout-conversion", "compilation", _look)
