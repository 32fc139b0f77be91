"""Programs with too little to do: lanes without an element, or so few bytes that starting programs is the work."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, busiest, metric, ratio, sms
from tritonforge.diagnosis.facts import WARP_LANES, floor, num_warps, program_lanes, traffic
from tritonforge.diagnosis.sizes import fixed_values, integer, tile_sizes
from tritonforge.domain.provenance import Provenance

START_NS_PER_SM = 80.0
"""Nanoseconds that an SM takes to start and retire one small program.

Derived from a copy with 16 elements per program on an H200 (132 SMs): 4,194,304 programs took 2,561 µs.
"""
_BYTES_PER_WARP = 512
_ABOVE_FLOOR = 1.2
_LANES_WORTH_A_HINT = 0.5
_AT_WORK = 0.6
_FILLED = 0.7
"""Achieved over theoretical occupancy from which programs start as fast as they end."""
_MOSTLY_STARTING = 0.5


@dataclass(frozen=True)
class SmallBlock:
    """Elements of a program's block against its lanes, bytes per warp, and what starting all programs takes in µs."""

    elements: int | None
    lanes: int
    warps: int
    programs: int | None
    bytes_per_warp: float | None
    start_us: float | None
    floor_us: float | None
    gain: float | None
    provenance: Provenance

    @property
    def idle(self) -> bool:
        """Whether some lanes have no element at all."""
        return self.elements is not None and self.elements < self.lanes


def small_block(case: Case) -> SmallBlock | None:
    """Judge the block of a kernel without dots (a dot's tile is judged by its intensity instead)."""
    if case.kernel.dots:
        return None
    if _is_contradicted(case):
        return None
    if case.compiled is not None and (case.compiled.work is not None or case.counters is None):
        return _from_work(case)
    if case.counters is not None:
        return _counted(case)
    return _from_source(case) if case.compilation is None else None


def _is_contradicted(case: Case) -> bool:
    """Whether counters show a unit at work, or SMs as full of warps as they can be: starting programs is no limit."""
    busy = busiest(case)
    filled = ratio(case, "occupancy", "theoretical_occupancy")
    return (busy is not None and busy[1] >= _AT_WORK) or (filled is not None and filled >= _FILLED)


def _counted(case: Case) -> SmallBlock | None:
    """Programs against the time that starting them takes, with the bytes that were counted."""
    programs, there, time_us, sectors = case.programs, sms(case), case.time_us, metric(case, "global_sectors")
    if not programs or not there or time_us is None or sectors is None:
        return None
    start_us = programs * START_NS_PER_SM / there / 1e3
    if start_us < _MOSTLY_STARTING * time_us:
        return None
    lanes, warps = program_lanes(case), num_warps(case)
    per_warp = sectors * SECTOR / programs / warps
    return SmallBlock(block_elements(case), lanes, warps, programs, per_warp, start_us, None, None, "measured")


def block_elements(case: Case) -> int | None:
    """Return the elements of a program's block: the product of its tile parameters, when all of them are known."""
    sizes = tile_sizes(case)
    tiles = case.kernel.tiles
    return prod(sizes[name] for name in tiles) if tiles and all(name in sizes for name in tiles) else None


def _from_work(case: Case) -> SmallBlock | None:
    compiled, known, least, gpu = case.compiled, traffic(case), floor(case), case.gpu
    programs = case.programs
    if compiled is None or known is None or least is None or gpu is None or not programs:
        return None
    lanes = program_lanes(case)
    elements = block_elements(case)
    per_warp = known.moved / programs / compiled.num_warps
    start_us = programs * START_NS_PER_SM / gpu.sms / 1e3
    starved = per_warp < _BYTES_PER_WARP or (elements is not None and elements < lanes)
    if not starved or start_us < _ABOVE_FLOOR * max(least.time_us, gpu.ceilings.launch_us):
        return None
    time_us = case.time_us
    if time_us is not None and time_us < _ABOVE_FLOOR * least.time_us:
        return None
    gain = time_us / max(least.time_us, gpu.ceilings.launch_us) if time_us is not None else None
    return SmallBlock(elements, lanes, compiled.num_warps, programs, per_warp, start_us, least.time_us, gain, "derived")


def _from_source(case: Case) -> SmallBlock | None:
    """Lanes that stay idle for a block that the source fixes; a block sized by the row it handles is left alone."""
    kernel = case.kernel
    if kernel.autotune is not None or kernel.heuristics:
        return None
    if any(not fixed_values(kernel, name) for name in kernel.tiles):
        return None
    elements = block_elements(case)
    warps = num_warps(case)
    if case.launch is None:
        written = [integer(value.text) for value in fixed_values(kernel, "num_warps") if value.source != "absent"]
        warps = next((w for w in written if w is not None), warps)
    lanes = WARP_LANES * warps
    if elements is None or elements > lanes * _LANES_WORTH_A_HINT:
        return None
    return SmallBlock(elements, lanes, warps, case.programs, None, None, None, None, "source")
