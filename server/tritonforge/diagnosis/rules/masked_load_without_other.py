"""TF502: a masked load without `other` whose undefined lanes reach a reduction, a scan or a dot."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.undefined_lanes import UndefinedLanes, undefined_lanes
from tritonforge.domain.finding import Severity


def _look(case: Case) -> Iterable[Observation]:
    for lanes in undefined_lanes(case):
        dead = lanes.dead_fraction
        # With a launch that turns lanes off the result is wrong by Triton's definition, whatever one GPU happens to do.
        severity: Severity = "warning" if dead else "information"
        yield Observation(
            severity=severity,
            range=lanes.access.range,
            message=_message(lanes),
            provenance="compiled" if dead else "source",
            evidence=evidence(
                ("mask", lanes.access.mask, "1", "source"),
                ("reaches", lanes.sink, "1", "source"),
                ("lanes_off", dead or None, "1", "compiled"),
            ),
        )


def _message(lanes: UndefinedLanes) -> str:
    share = f" ({percent(lanes.dead_fraction)} of all lanes in this launch)" if lanes.dead_fraction else ""
    if _is_boundary_check(lanes):
        return (
            f"Lanes outside the tensor{share} are undefined, because the load has `{lanes.access.mask}` without "
            f'`padding_option`, and reach a {lanes.sink}; pass `padding_option="zero"` or mask them with tl.where.'
        )
    return (
        f"Lanes that `{lanes.access.mask}` turns off{share} are undefined without `other` and reach a {lanes.sink}; "
        f"pass the value that leaves the {lanes.sink} unchanged (0.0 for a sum or a dot, -inf for a maximum)."
    )


def _is_boundary_check(lanes: UndefinedLanes) -> bool:
    """Tell whether the load is of a block pointer, whose lanes are turned off by `boundary_check`, not by a mask."""
    return (lanes.access.mask or "").startswith("boundary_check")


RULE = Rule("TF502", "masked-load-without-other", "source", _look)
