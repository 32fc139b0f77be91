"""Tiles so much larger than what they cover that lanes, registers and time go to elements that are masked off."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import program_lanes
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import NEAR_ROOFLINE, is_at_roofline, is_measured_near_roofline
from tritonforge.diagnosis.signals.spilling import spill
from tritonforge.diagnosis.sizes import tile_sizes
from tritonforge.domain.launch import Scalar

_OFF = 0.3
"""Share of masked-off lanes from which a tile is oversized."""
_WORTH = 1.2
_PER_LANE = 32
"""Elements of one access per lane from which a tile strains registers."""
_BY_LANE = frozenset({"alu", "special", "shared"})
"""Parts of the model that masked-off lanes add to as much as others."""
_NEARLY = 0.8
"""Share of a lone warp's time from which instructions are most of what it does, rather than waiting for memory."""


@dataclass(frozen=True)
class Oversized:
    """Of the lanes of all accesses `off` (0–1) are masked off; `tile` = `size` is the largest tile.

    `per_lane` elements of it fall to each lane; `spill_bytes` per thread, 0 without spills; `gain` is a bound on what a
    tile that fits would save, None for a row that spills.
    """

    tile: str
    size: int
    off: float
    per_lane: float
    spill_bytes: int
    gain: float | None


def oversized(case: Case) -> Oversized | None:
    """Judge the largest tile of a compiled launch.

    Masked-off lanes move no bytes, so a launch that waits for memory does not care: only one that is limited by
    instructions, or that spills, is told. Silent near the roofline, for tiny launches, and for tiles that fit.
    """
    compiled = case.compiled
    if compiled is None or compiled.work is None or case.kernel.dots or launch_bound(case) is not None:
        return None
    if is_measured_near_roofline(case) or is_at_roofline(case, NEAR_ROOFLINE):
        return None
    lines = [w for w in compiled.work.lines.values() if w.load_bytes + w.store_bytes]
    asked = sum(w.load_bytes + w.store_bytes for w in lines)
    sizes = tile_sizes(case)
    if not asked or not sizes:
        return None
    off = 1.0 - sum((w.load_bytes + w.store_bytes) * w.unmasked_fraction for w in lines) / asked
    name = max(sizes, key=lambda tile: sizes[tile])
    per_lane = sizes[name] / program_lanes(case)
    spilled = spill(case)
    frame = compiled.resources.spill_bytes if compiled.resources is not None else 0
    if spilled is not None and spilled.heavy and per_lane >= _PER_LANE and _is_rounded_up(case, name):
        return Oversized(name, sizes[name], off, per_lane, frame, None)
    gain = _gain(case, off)
    return Oversized(name, sizes[name], off, per_lane, frame, gain) if off >= _OFF and gain >= _WORTH else None


def _gain(case: Case, off: float) -> float:
    """The time now over the time without the lanes that are off: those parts shrink, the others stay as they are."""
    prediction = case.prediction
    if prediction is None:
        return 1.0
    parts = dict(prediction.parts)
    now = max((us for name, us in parts.items() if name in _BY_LANE), default=0.0)
    if now >= _NEARLY * parts.get("latency", 0.0):
        parts.pop("latency", None)
    if now < max(parts.values(), default=0.0):
        return 1.0
    then = max(us * (1.0 - off) if name in _BY_LANE else us for name, us in parts.items())
    return now / then if then > 0 else 1.0


def _is_rounded_up(case: Case, tile: str) -> bool:
    """Whether the tile is a whole row: the least power of two that holds an extent that the launch passes."""
    size = tile_sizes(case)[tile]
    launch = case.launch
    if launch is None:
        return False
    values = [value.value for _, value in (*launch.problem.arguments, *launch.problem.constexprs)
              if isinstance(value, Scalar)]  # fmt: skip
    return any(type(value) is int and size // 2 < value <= size for value in values)
