"""How often each line's machine instructions run: static counts × trip counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tritonforge.domain.compilation import LineInstructions, LineWork, Work


def executed_by_line(
    instructions: Mapping[int, LineInstructions], work: Work, num_warps: int, lanes: int = 32
) -> dict[int, dict[str, float]]:
    """Warp instructions of one program by line and class: static counts × how often they run × warps.

    Of a line that a loop runs, the instructions inside the machine loop run as often as the loop, and those outside
    (what was hoisted, the prologue of a pipeline) once. The assembler unrolls loops, which multiplies the static count
    and divides the trips: lines that run equally often are one loop, and how far its memory instructions exceed what
    one iteration needs is how far it was unrolled. Slow paths that nearly no value takes are left out. `lanes` is how
    many a warp has.
    """
    lines: dict[int, dict[str, float]] = {}
    for number, (once_runs, repeats) in runs_by_line(instructions, work, num_warps, lanes).items():
        found = instructions[number]
        lines[number] = {}
        for kind, count in found.instructions.items():
            looped, rare = found.looped.get(kind, 0), found.rare.get(kind, 0)
            lines[number][kind] = ((count - looped - rare) * once_runs + looped * repeats) * num_warps
    return lines


def runs_by_line(
    instructions: Mapping[int, LineInstructions], work: Work, num_warps: int, lanes: int = 32
) -> dict[int, tuple[float, float]]:
    """How often one warp runs the instructions of each line: those outside machine loops, and those inside."""
    groups: defaultdict[float, list[tuple[int, LineInstructions, LineWork | None]]] = defaultdict(list)
    for number, found in instructions.items():
        line = work.lines.get(number)
        groups[line.executions if line else 1.0].append((number, found, line))
    runs: dict[int, tuple[float, float]] = {}
    for times, members in groups.items():
        repeats = times / _unrolled([(found, line) for _, found, line in members], times, num_warps * lanes)
        runs |= {number: (min(1.0, times), repeats) for number, _, _ in members}
    return runs


def _unrolled(members: list[tuple[LineInstructions, LineWork | None]], times: float, lanes: int) -> float:
    needed = found = 0.0
    for instructions, line in members:
        accesses = sum(instructions.looped.get(kind, 0) for kind in ("load_global", "store_global", "async_copy"))
        if line is None or not accesses or not instructions.access_bytes or not line.load_bytes + line.store_bytes:
            continue
        lane_bytes = (line.load_bytes + line.store_bytes) / max(times, 1e-9) / lanes
        needed += max(1.0, lane_bytes / max(instructions.access_bytes))
        found += accesses
    return max(1.0, found / needed) if needed else 1.0
