"""TF205: a load that every iteration of a loop repeats."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import samples_on
from tritonforge.diagnosis.finding import evidence, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.invariant import RepeatedLoad, repeated_loads
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import is_at_roofline, is_measured_near_roofline
from tritonforge.domain.finding import Severity

_WAITED_FOR = 0.2
"""Share of the stall samples on the load from which it is worth a warning."""
_TRACE = 0.05
"""Share of the bytes below which a repeated load is not worth a word."""


def _look(case: Case) -> Iterable[Observation]:
    if is_measured_near_roofline(case) or is_at_roofline(case):
        return
    small = launch_bound(case) is not None
    for seen in repeated_loads(case):
        if seen.share is not None and seen.share < _TRACE:
            continue
        samples = samples_on(case, [seen.access.range])
        yield Observation(
            severity=_severity(seen, samples, small=small),
            range=seen.access.range,
            message=_message(seen),
            provenance="compiled" if seen.rounds is not None else "source",
            evidence=evidence(
                ("loop", seen.loop.range.start.line, "line", "source"),
                ("iterations", seen.rounds, "1", "compiled"),
                ("share_of_bytes", seen.share, "1", "derived"),
                ("stall_samples", samples, "1", "measured"),
            ),
        )


def _severity(seen: RepeatedLoad, samples: float | None, *, small: bool) -> Severity:
    if samples is not None and samples >= _WAITED_FOR:
        return "warning"
    return "information" if seen.rounds is not None and not small else "hint"


def _message(seen: RepeatedLoad) -> str:
    of = f"`{seen.access.pointer}`"
    line = seen.loop.range.start.line
    if seen.rounds is None or seen.share is None:
        return (
            f"This load of {of} is the same in every iteration of the loop in line {line}, and a loop that also stores "
            "keeps it inside; load it in front of the loop."
        )
    return (
        f"This load of {of} is the same in all {number(seen.rounds)} iterations of the loop in line {line}, and the "
        f"compiler left it inside: {percent(seen.share)} of the bytes that a program asks for are such repetitions; "
        "load it in front of the loop."
    )


RULE = Rule("TF205", "loop-invariant-work", "source", _look)
