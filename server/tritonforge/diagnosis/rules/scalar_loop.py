"""TF207: a loop that loads one element per iteration."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import samples_on
from tritonforge.diagnosis.finding import evidence, head_of, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline
from tritonforge.diagnosis.signals.scalar_loop import DECIDES, ScalarLoop, scalar_loops


def _look(case: Case) -> Iterable[Observation]:
    if is_measured_near_roofline(case):
        return
    for scalar in scalar_loops(case):
        compiled = case.compiled is not None and scalar.iterations is not None
        share = samples_on(case, [scalar.loop.range])
        decides = share >= DECIDES if share is not None else compiled and scalar.dominant
        yield Observation(
            severity="warning" if decides else "hint",
            range=head_of(scalar.loop.range),
            message=_message(scalar),
            provenance="measured" if share is not None else "compiled" if compiled else "source",
            evidence=evidence(
                ("iterations", scalar.iterations, "1", "compiled" if compiled else "source"),
                ("lanes", scalar.lanes, "1", "compiled" if case.compilation is not None else "source"),
                ("scalar_loads", len(scalar.loads), "1", "source"),
                ("stall_samples", share, "1", "measured"),
            ),
        )


def _message(scalar: ScalarLoop) -> str:
    count = f" {number(scalar.iterations)} times" if scalar.iterations is not None else ""
    rest = scalar.lanes - 1
    return (
        f"This loop loads one element per iteration and goes round{count or ' once per element'}, while the program "
        f"has {scalar.lanes} lanes: {rest} of them repeat the work of one; load a block with tl.arange and reduce it."
    )


RULE = Rule("TF207", "scalar-loop", "source", _look)
