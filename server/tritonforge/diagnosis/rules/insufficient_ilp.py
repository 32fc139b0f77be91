"""TF208: a dependent chain with too few warps to hide it."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.chains import Chain, chain, is_carried, is_waited_for


def _look(case: Case) -> Iterable[Observation]:
    seen = chain(case)
    if seen is None:
        return
    yield Observation(
        severity="warning" if is_waited_for(seen) else "information",
        range=line_range(case.kernel, seen.loop.line),
        message=_message(seen),
        provenance="measured" if seen.waiting is not None else "compiled",
        evidence=evidence(
            ("independent_instructions", seen.ilp, "1", "derived"),
            ("chain", seen.loop.chain, "instructions", "compiled"),
            ("carried_share", seen.carried, "1", "derived"),
            ("iterations", seen.loop.trips, "1", "compiled"),
            ("warps_per_sm", seen.warps, "1", "derived"),
            ("issue_active", seen.issuing, "1", "measured"),
            ("waits_for_results", seen.waiting, "1", "measured"),
        ),
    )


def _message(seen: Chain) -> str:
    advice = (
        "each iteration needs the one before: several accumulators, a scan, or a chunked form break the chain"
        if is_carried(seen)
        else "let several elements or iterations run side by side (a larger block per lane, loop_unroll_factor)"
    )
    return (
        f"This loop has {number(seen.ilp)} independent instructions in flight, and an SM has {seen.warps} warps to "
        f"fill the gaps: {advice}."
    )


RULE = Rule("TF208", "insufficient-ilp", "compilation", _look)
