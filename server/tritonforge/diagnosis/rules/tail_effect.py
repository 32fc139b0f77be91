"""TF303: a last round of programs that leaves most SMs without one."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import sms
from tritonforge.diagnosis.finding import evidence, gain_of, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.imbalance import Imbalance, tail
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import NEAR_ROOFLINE, is_at_roofline


def _look(case: Case) -> Iterable[Observation]:
    seen = tail(case)
    if seen is None or is_at_roofline(case, NEAR_ROOFLINE) or launch_bound(case) is not None:
        return
    measured = seen.provenance == "measured"
    yield Observation(
        severity="warning" if measured else "information" if seen.sure else "hint",
        range=case.kernel.name_range,
        message=_message(seen, number(case.programs or 0)),
        provenance=seen.provenance,
        evidence=evidence(
            ("busy", seen.busy, "1", seen.provenance),
            ("waves", seen.waves, "1", "measured" if measured else "compiled"),
            ("programs", case.programs, "1", "source"),
            ("sms", sms(case), "1", "derived"),
        ),
        estimated_gain=gain_of(1 / seen.busy) if measured else None,
    )


def _message(seen: Imbalance, programs: str) -> str:
    rounds = f" in {number(seen.waves)} rounds" if seen.waves is not None else ""
    together = "" if seen.sure else " if those of a round end together"
    return (
        f"{programs} programs{rounds} leave most SMs without one at the end{together}: an SM works "
        f"{percent(seen.busy)} of the time; choose tiles so that the programs fill whole rounds, or let a fixed number "
        "of programs share the tiles out (a persistent grid)."
    )


RULE = Rule("TF303", "tail-effect", "launch", _look)
