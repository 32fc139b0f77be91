"""What can be told of a version before it is compiled, by others of the same structure that were."""

from __future__ import annotations

from tritonforge.optimize.correction import STRUCTURE, Point, Value
from tritonforge.optimize.points import point_of
from tritonforge.optimize.search import Attempt, Search

FIXED_REGISTERS = 24
"""Of a thread, for addresses and counters: they do not grow when fewer threads share a tile."""
MOST_REGISTERS = 400
"""Beyond this estimate a version is not compiled; a thread of an NVIDIA GPU has 255 registers. Of 112 pairs of recorded
configurations that differ in their warps alone (H200) 27 lie beyond: all spill, and the fastest takes 2.6 times as long
as the best of its kernel. The compiler takes longest for just these, tens of seconds for a large kernel."""
SPILL_BYTES = 4
"""Bytes of a register."""


def too_many_registers(search: Search, attempt: Attempt) -> str | None:
    """Return why a version would spill its registers in earnest, in a clause; None where nothing tells so.

    Fewer warps share the same tile, or a larger one: what one thread holds grows at least as their number falls.
    """
    if not search.session.arch.startswith("sm_"):
        return None
    config = search.original.config
    wanted = point_of(attempt.candidate, config)
    known = [one for one in search.attempts.values() if one.assessed] + [search.original]
    needed = max((_least(one, point_of(one.candidate, config), wanted) for one in known), default=0.0)
    if needed < MOST_REGISTERS:
        return None
    return f"would need about {needed:.0f} registers a thread: not compiled"


def _least(compiled: Attempt, have: Point, wanted: Point) -> float:
    """Return the registers a thread of the wanted version needs at least by a compiled one; 0 where that says nothing.

    Of several launches the one that needs the fewest counts: the version may be meant for it.
    """
    if have[STRUCTURE] != wanted[STRUCTURE]:
        return 0.0
    if not all(_at_least(have.get(name), value) for name, value in wanted.items() if name not in _NO_TILES):
        return 0.0
    warps = wanted.get("num_warps")
    if not isinstance(warps, int) or warps < 1:
        return 0.0
    needed = []
    for one in compiled.assessed:
        resources, shared_by = one.compilation.resources, one.compilation.num_warps
        if resources is None or shared_by <= warps:
            return 0.0
        held = resources.registers + resources.spill_bytes / SPILL_BYTES - FIXED_REGISTERS
        needed.append(FIXED_REGISTERS + max(held, 0.0) * shared_by / warps)
    return min(needed, default=0.0)


_NO_TILES = {STRUCTURE, "num_warps", "num_stages"}


def _at_least(before: Value | None, value: Value) -> bool:
    """Tell whether a value of a tile is the same or larger."""
    if isinstance(before, int) and isinstance(value, int):
        return value >= before
    return before == value
