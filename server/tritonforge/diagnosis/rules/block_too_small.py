"""TF304: programs with fewer elements than lanes, or so few bytes that starting them is the work."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, gain_of, microseconds, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.block import SmallBlock, small_block
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline
from tritonforge.diagnosis.sizes import place_of
from tritonforge.domain.source import Range


def _look(case: Case) -> Iterable[Observation]:
    small = small_block(case)
    if small is None or is_measured_near_roofline(case):
        return
    compiled = small.start_us is not None
    yield Observation(
        severity="warning" if compiled else "hint",
        range=_place(case),
        message=_message(small),
        provenance=small.provenance,
        evidence=evidence(
            ("elements_per_program", small.elements, "1", "source"),
            ("lanes", small.lanes, "1", "compiled" if compiled else "source"),
            ("num_warps", small.warps, "1", "compiled" if compiled else "source"),
            ("programs", small.programs, "1", "source"),
            ("bytes_per_warp", small.bytes_per_warp, "bytes", "derived"),
            ("start_time", small.start_us, "µs", "predicted"),
            ("floor_time", small.floor_us, "µs", "derived"),
            ("time", case.time_us if compiled else None, "µs", case.time_provenance),
        ),
        estimated_gain=gain_of(small.gain),
    )


def _message(small: SmallBlock) -> str:
    lanes = f"{small.lanes} lanes ({small.warps} warps)"
    what = (
        f"A program has {number(small.elements)} elements for {lanes}"
        if small.idle and small.elements is not None
        else f"A program moves only {number(small.bytes_per_warp or 0)} bytes per warp"
    )
    if small.start_us is None or small.floor_us is None or small.programs is None:
        idle = small.lanes - (small.elements or 0)
        return f"{what}, so {idle} lanes have nothing to do: use a larger block or fewer warps."
    return (
        f"{what}: starting {number(small.programs)} programs takes about {microseconds(small.start_us)}, where the "
        f"bytes need {microseconds(small.floor_us)}; give a program a larger block or several rows, or fewer warps."
    )


def _place(case: Case) -> Range:
    """The value to change, where it stands in this file; else the kernel's name."""
    places = (place_of(case, name) for name in case.kernel.tiles)
    return next((place for place in places if place is not None), case.kernel.name_range)


RULE = Rule("TF304", "block-too-small", "source", _look, tunable=True)
