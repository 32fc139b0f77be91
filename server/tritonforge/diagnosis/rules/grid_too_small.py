"""TF302: fewer programs than SMs."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, gain_of, number, percent, timed
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.grid import IdleSms, idle_sms
from tritonforge.diagnosis.sizes import site_of
from tritonforge.domain.source import Range


def _look(case: Case) -> Iterable[Observation]:
    idle = idle_sms(case)
    if idle is None:
        return
    yield Observation(
        severity=timed(case, grave=idle.busy <= 0.5),
        range=_place(case),
        message=_message(idle),
        provenance="derived",
        evidence=evidence(
            ("programs", idle.programs, "1", "source"),
            ("sms", idle.sms, "1", "derived"),
            ("busy_sms", idle.busy, "1", "derived"),
            ("time", case.time_us, "µs", case.time_provenance),
        ),
        estimated_gain=gain_of(idle.gain),
    )


def _message(idle: IdleSms) -> str:
    one = idle.programs == 1
    return (
        f"The grid has {number(idle.programs)} program{'' if one else 's'} for {idle.sms} SMs, so "
        f"{percent(1 - idle.busy)} of the GPU stays idle: split the work further (smaller tiles, split-K, or a "
        "reduction in two stages)."
    )


def _place(case: Case) -> Range:
    """The grid of the launch that was seen, when it stands in this file; else the kernel's name."""
    site = site_of(case)
    here = site is not None and site.file == case.kernel.file
    return (site.grid_range if site is not None and here else None) or case.kernel.name_range


RULE = Rule("TF302", "grid-too-small", "source", _look)
