"""TF305: a tile much larger than what it covers, or than registers hold."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, gain_of, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.oversized import Oversized, oversized
from tritonforge.diagnosis.sizes import place_of


def _look(case: Case) -> Iterable[Observation]:
    seen = oversized(case)
    if seen is None:
        return
    yield Observation(
        severity="warning" if seen.gain is None and case.time_provenance == "measured" else "information",
        range=place_of(case, seen.tile) or case.kernel.name_range,
        message=_message(seen),
        provenance="compiled",
        evidence=evidence(
            ("tile", seen.tile, "1", "source"),
            ("size", seen.size, "1", "compiled"),
            ("lanes_off", seen.off, "1", "compiled"),
            ("elements_per_lane", seen.per_lane, "1", "derived"),
            ("spill_bytes", seen.spill_bytes or None, "bytes per thread", "compiled"),
        ),
        estimated_gain=gain_of(seen.gain),
    )


def _message(seen: Oversized) -> str:
    tile = f"{seen.tile}={seen.size}"
    if seen.gain is None:
        return (
            f"{tile} holds a whole row, {number(seen.per_lane)} elements in each lane, and registers spill "
            f"{number(seen.spill_bytes)} bytes per thread: walk along the row in a loop over a smaller tile, or give "
            "the program more warps."
        )
    return (
        f"{percent(seen.off)} of the lanes of this launch's accesses are masked off (its largest tile is {tile}), and "
        "they take as many instructions as the others, which decide the time: a tile that fits the extent, or a loop "
        "over a smaller one, leaves them out."
    )


RULE = Rule("TF305", "block-too-large", "compilation", _look)
