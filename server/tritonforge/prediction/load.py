"""What a launch asks of the machine, in the units that the parts of the model need."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from tritonforge.domain.compilation import Compilation, LineWork, Work
from tritonforge.domain.weighting import executed_by_line as weighted

WARP = 32
_WIDEST = 16  # bytes of one lane's access


@dataclass(frozen=True)
class Load:
    """One program's demands, and how the programs lie on the GPU.

    `resident`: programs that an SM holds at once. `per_sm`: programs that the busiest SM runs in all. `waves`: rounds
    of resident programs, a fraction when the GPU is never full. `instructions`: warp instructions of one program by
    class, trip counts included. `moved`: bytes through L2 of one program; `once`: without what it reads again;
    `spread`: those of strided or scattered accesses. `passes`: how often one program reads the same data (1: once).
    `pipelined`: loads run ahead of their use.
    """

    programs: int
    warps: int
    stages: int
    resident: int
    per_sm: int
    waves: float
    work: Work
    instructions: dict[str, float]
    moved: float
    once: float
    spread: float
    passes: float
    pipelined: bool

    def total(self, name: str) -> float:
        """Return `name` of `LineWork` summed over one program."""
        return self.work.total(name)


def load_of(compilation: Compilation, sms: int) -> Load | None:
    """Describe the launch of a compilation on a GPU of `sms` SMs, or None when too little is known of it."""
    work = compilation.work
    if work is None or compilation.error is not None or compilation.programs <= 0:
        return None
    resident = compilation.occupancy.programs_per_sm if compilation.occupancy else max(1, 16 // compilation.num_warps)
    programs = compilation.programs
    lines = work.lines.values()
    passes = _passes(work)
    moved = sum(_moved(line) for line in lines)
    loaded = sum(_moved(line) for line in lines if line.load_bytes)
    return Load(
        programs=programs,
        warps=compilation.num_warps,
        stages=compilation.num_stages,
        resident=resident,
        per_sm=math.ceil(programs / sms),
        waves=programs / (sms * resident),
        work=work,
        instructions=_executed(compilation, work),
        moved=moved,
        once=moved - loaded * (1 - 1 / passes),
        spread=sum(_moved(line) for line in lines if _moved(line) >= 2 * (line.load_bytes + line.store_bytes) > 0),
        passes=passes,
        pipelined=any(i.instructions.get("async_copy") for i in compilation.instructions.values()),
    )


def _moved(line: LineWork) -> float:
    return line.moved_bytes or (line.load_bytes + line.store_bytes) * line.unmasked_fraction


def _passes(work: Work) -> float:
    """How often a program loads the same: the sum over the lines that read an argument, over the largest of them."""
    loads: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for number, line in work.lines.items():
        if line.load_bytes:
            loads[line.pointers or (f"line {number}",)].append(line.load_bytes)
    most = sum(max(sizes) for sizes in loads.values())
    return sum(sum(sizes) for sizes in loads.values()) / most if most else 1.0


def executed_by_line(compilation: Compilation, work: Work) -> dict[int, dict[str, float]]:
    """Warp instructions of one program by line and class (see `domain.weighting`)."""
    return weighted(compilation.instructions, work, compilation.num_warps, WARP)


def _executed(compilation: Compilation, work: Work) -> dict[str, float]:
    """Warp instructions of one program by class. Without a disassembly, the first IR's operations stand in for them."""
    if not compilation.instructions:
        accesses = work.total("load_bytes") + work.total("store_bytes")
        return {
            "alu": work.total("alu_ops") / WARP,
            "special": work.total("special_ops") / WARP,
            "load_global": accesses / (WARP * _WIDEST),
        }
    totals: defaultdict[str, float] = defaultdict(float)
    for kinds in executed_by_line(compilation, work).values():
        for kind, count in kinds.items():
            totals[kind] += count
    return dict(totals)
