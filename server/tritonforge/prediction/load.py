"""What a launch asks of the machine, in the units that the parts of the model need."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tritonforge.domain.compilation import Compilation, LineWork, Pace, Work
from tritonforge.domain.weighting import executed_by_line as weighted
from tritonforge.domain.weighting import runs_by_line
from tritonforge.prediction.shared import wavefronts
from tritonforge.prediction.traffic import Footprint

WARP = 32
_WIDEST = 16  # bytes of one lane's access
_LINE = 128  # bytes of a cache line
_WALK = 64  # a loop that loads fewer bytes each time meets the same line again
_L2 = 0.35
"""A load that hits L2, in latencies of one that goes to memory (about 260 of 750 cycles on Hopper)."""
_MOST_PROGRAMS = 2**63
"""More than any GPU can be told to run (2³¹ × 65,535²): such a count was read wrongly."""
_L1 = 0.05
"""A load that hits L1, in latencies of one that goes to memory (about 33 of 700 cycles on Hopper)."""


@dataclass(frozen=True)
class Stream:
    """One argument's data on its way in or out. Bytes of one program.

    `requested` passes L2; `once` without what the program reads again; `spread` is the strided or scattered part.
    `held` is what the whole launch has of it, None when unknown.
    """

    store: bool
    requested: float
    once: float
    spread: float
    held: float | None

    def distinct(self, programs: float) -> float:
        """Return the bytes that so many programs touch together, each once."""
        whole = programs * self.once
        return whole if self.held is None else min(whole, self.held)


@dataclass(frozen=True)
class Load:
    """One program's demands, and how the programs lie on the GPU.

    `resident`: programs that an SM holds at once. `per_sm`: programs that the busiest SM runs in all. `waves`: rounds
    of resident programs, a fraction when the GPU is never full. `instructions`: warp instructions of one program by
    class, trip counts included. `streams`: what it moves, by argument and direction. `passes`: how often one program
    reads the same data (1: once). `pace`: what one warp that has the SM to itself spends, None when not known.
    `wavefronts`: cycles that shared memory is busy for one program. `pipelined`: loads run ahead of their use.
    """

    programs: int
    warps: int
    stages: int
    resident: int
    per_sm: int
    waves: float
    work: Work
    instructions: Mapping[str, float]
    streams: tuple[Stream, ...]
    passes: float
    pace: Pace | None
    wavefronts: float
    pipelined: bool

    def total(self, name: str) -> float:
        """Return `name` of `LineWork` summed over one program."""
        return self.work.total(name)

    @property
    def running(self) -> float:
        """How many programs run at once on a GPU that they fill."""
        return self.programs / self.waves if self.waves > 1 else float(self.programs)

    @property
    def busiest(self) -> float:
        """How many programs of mean length the busiest SM runs: the longest may come last."""
        return self.per_sm + self.last

    @property
    def last(self) -> float:
        """How much longer the longest program is than the mean, in programs of mean length."""
        return max(0.0, self.work.imbalance - 1)

    @property
    def moved(self) -> float:
        """Bytes through L2 of one program."""
        return sum(stream.requested for stream in self.streams)


def load_of(compilation: Compilation, sms: int, footprint: Footprint | None = None) -> Load | None:
    """Describe the launch of a compilation on a GPU of `sms` SMs, or None when too little is known of it."""
    work = compilation.work
    programs = compilation.programs
    if work is None or compilation.error is not None or not 0 < programs < _MOST_PROGRAMS or compilation.num_warps <= 0:
        return None
    resident = compilation.occupancy.programs_per_sm if compilation.occupancy else max(1, 16 // compilation.num_warps)
    if resident <= 0:
        return None  # an SM that cannot hold one program runs none
    executed = executed_by_line(compilation, work)
    return Load(
        programs=programs,
        warps=compilation.num_warps,
        stages=compilation.num_stages,
        resident=resident,
        per_sm=math.ceil(programs / sms),
        waves=programs / (sms * resident),
        work=work,
        instructions=_executed(compilation, work, executed),
        streams=_streams(work, footprint),
        passes=_passes(work),
        pace=_pace(compilation, work),
        wavefronts=wavefronts(compilation, executed),
        pipelined=any(i.instructions.get("async_copy") for i in compilation.instructions.values()),
    )


def moved_bytes(line: LineWork) -> float:
    """Return the bytes that the accesses of a line move through L2."""
    return line.moved_bytes or (line.load_bytes + line.store_bytes) * line.unmasked_fraction


def _streams(work: Work, footprint: Footprint | None) -> tuple[Stream, ...]:
    grouped: defaultdict[tuple[bool, tuple[str, ...]], list[LineWork]] = defaultdict(list)
    for number, line in work.lines.items():
        if moved_bytes(line):
            stores = line.store_bytes > line.load_bytes
            grouped[stores, line.pointers or (f"line {number}",)].append(line)
    streams = []
    for (store, pointers), lines in grouped.items():
        sizes = [moved_bytes(line) for line in lines]
        held = None
        if footprint is not None:
            known = [footprint.arguments[name] for name in pointers if name in footprint.arguments]
            held = float(sum(known)) if len(known) == len(pointers) else float(footprint.total)
        wasteful = [
            size for size, line in zip(sizes, lines, strict=True)
            if size >= 2 * (line.load_bytes + line.store_bytes) > 0
        ]  # fmt: skip
        streams.append(Stream(store, sum(sizes), sum(sizes) if store else max(sizes), sum(wasteful), held))
    return tuple(streams)


def _passes(work: Work) -> float:
    """How often a program loads the same: the sum over the lines that read an argument, over the largest of them."""
    loads: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for number, line in work.lines.items():
        if line.load_bytes:
            loads[line.pointers or (f"line {number}",)].append(line.load_bytes)
    most = sum(max(sizes) for sizes in loads.values())
    return sum(sum(sizes) for sizes in loads.values()) / most if most else 1.0


def _pace(compilation: Compilation, work: Work) -> Pace | None:
    """What one warp spends on a whole program: each line's pace, as often as it runs.

    Lines that run equally often are one loop. It waits no more often than it loads: code that unrolling left beside a
    loop is counted, but does not run. A loop that walks over single elements waits once for each 128-byte line of
    them, and for L1 otherwise.
    """
    runs = runs_by_line(compilation.instructions, work, compilation.num_warps, WARP)
    cycles = matrix = 0.0
    waits: defaultdict[float, float] = defaultdict(float)
    short: defaultdict[float, float] = defaultdict(float)
    near = _near_lines(compilation)
    for number, (once, repeats) in runs.items():
        found = compilation.instructions[number]
        line = work.lines.get(number)
        times = line.executions if line else 1.0
        for pace, count in ((found.pace, once), (found.looped_pace, repeats)):
            cycles += pace.cycles * count
            matrix += pace.matrix * count
            waits[times] += pace.waits * count
        short[times] += found.looped_pace.waits * repeats * (number in near)
    if not cycles:
        return None
    lanes = compilation.num_warps * WARP
    loads: defaultdict[float, float] = defaultdict(float)
    sizes: defaultdict[float, float] = defaultdict(float)
    for line in work.lines.values():
        if line.load_bytes and line.executions:
            loads[line.executions] += line.executions * max(1.0, line.load_bytes / line.executions / lanes / _WIDEST)
            sizes[line.executions] += line.load_bytes / line.executions
    total = 0.0
    for times, count in waits.items():
        walks = times > 1 and 0 < sizes[times] < _WALK
        # What a load in a loop is waited for may be seen on lines that run as often as others.
        some = min(count, loads[times] or count) * (sizes[times] / _LINE + _L1 if walks else 1.0)
        total += some * (1 - (1 - _L2) * short[times] / count) if count else 0.0
    return Pace(cycles, matrix, total)


def _near_lines(compilation: Compilation) -> set[int]:
    """Return the lines of loops whose loads the program has all made before: a further pass over the same rows."""
    accesses = [one for one in compilation.accesses or () if one.kind in {"load", "async-copy"} and one.shape]
    loops = sorted(one.line for one in compilation.loops or ())
    near: set[int] = set()
    for number, start in enumerate(loops):
        inside = [one for one in accesses if one.loop == start]
        before = {one.pointer for one in accesses if one.line < start and one.loop is not None and one.loop < start}
        if inside and any(one.pointer in before for one in inside):
            end = loops[number + 1] if number + 1 < len(loops) else max(compilation.instructions, default=start) + 1
            near.update(range(start, end))
    return near


def executed_by_line(compilation: Compilation, work: Work) -> dict[int, dict[str, float]]:
    """Warp instructions of one program by line and class (see `domain.weighting`)."""
    return weighted(compilation.instructions, work, compilation.num_warps, WARP)


def _executed(compilation: Compilation, work: Work, executed: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Warp instructions of one program by class. Without a disassembly, the first IR's operations stand in for them."""
    if not compilation.instructions:
        accesses = work.total("load_bytes") + work.total("store_bytes")
        return {
            "alu": work.total("alu_ops") / WARP,
            "special": work.total("special_ops") / WARP,
            "load_global": accesses / (WARP * _WIDEST),
        }
    totals: defaultdict[str, float] = defaultdict(float)
    for kinds in executed.values():
        for kind, count in kinds.items():
            totals[kind] += count
    return dict(totals)
