"""What one warp that has its SM to itself spends on its instructions, and how often it waits for global memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tritonforge.compilation.chains import Register, effects, innermost
from tritonforge.compilation.flow import Span
from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.machine import Machine
from tritonforge.domain.compilation import Pace

MEMORY_CYCLES = 800.0
"""What a load from global memory takes here. Only the shares of it that nothing hides leave this module."""
_CYCLES = {
    "load_shared": 30.0,
    "shuffle": 25.0,
    "special": 22.0,
    "convert": 14.0,
    "mma": 33.0,
    "load_local": 260.0,
    "atomic": 30.0,
}
"""From issue to the first instruction that may use the result, in cycles: rounded from micro-benchmarks of Hopper and
Ampere (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024;
Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through Microbenchmarking", 2022). `load_local` goes
to L2: what spills in earnest does not fit L1 beside shared memory. What is not here takes `_ALU`."""
_ALU = 4.5
_BUSY = {"int": 2.0, "special": 8.0, "convert": 4.0, "shuffle": 2.0}
"""Cycles for which one instruction of a warp keeps its unit busy: 32 lanes over those that the unit of one scheduler
has (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", compute capability 9.0)."""
_BARRIER = 20.0
_MMA_BUSY = 6.5
"""Cycles between two `mma` of one scheduler: 16x8x16 products at 62 % of the rate that wgmma reaches (Luo et al.)."""
_WGMMA_SHAPE = re.compile(r"\.64x(\d{1,4})x\d+")
_WGMMA_DRAIN = 18.0
"""From the last product of a group to the waiting warp: the latency of the smallest wgmma (Luo et al.)."""
_COUNT = re.compile(r"0x([0-9a-f]+)\s*$")
_PASSES = 3
_PASSES_PIPELINED = 10
"""How often a loop is walked through until it is steady; more where copies run several passes ahead."""
_MOST_STEPS = 100_000
"""Of one loop, how many instructions are walked at most: a second of work. A body of more is walked once."""
_WITHOUT_TIME = frozenset({"NOP", "s_nop"})
_SYNCHRONISES = frozenset({"BAR", "s_barrier"})
_Ready = tuple[float, str]


@dataclass
class _Warp:
    """A warp in the middle of its instructions. Times in cycles.

    `ready`: when each register is, and what it waits for; `units`: when each unit of the scheduler may start again.
    `products`, `copies`: when the asynchronous groups under way end; `pending`: when the last product or copy that
    belongs to no group yet does; `busy`: until when the matrix unit is.
    """

    now: float = 0.0
    ready: dict[Register, _Ready] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)
    products: deque[float] = field(default_factory=deque)
    copies: deque[float] = field(default_factory=deque)
    pending: dict[str, float] = field(default_factory=dict)
    busy: float = 0.0


_Step = tuple[int, float, float, float]
"""Index of an instruction, and what it took: cycles, cycles of waiting for the matrix unit, waits for memory."""


def paces(machine: Machine) -> dict[int, tuple[Pace, Pace]]:
    """Return for each line what a lone warp spends on its instructions, outside loops once and inside them each pass.

    Instructions issue in order, one a cycle, each when what it needs is there. A wait for memory counts as the share of
    a full latency that nothing before it hid: several loads in a row are one wait when the first use comes behind the
    last of them, and many when each is used before the next begins; a copy that runs several passes ahead is hidden by
    those. Bank conflicts, and other warps, are not in it. Bulk copies (TMA) and tcgen05 take no time here.
    """
    found: defaultdict[int, list[list[float]]] = defaultdict(lambda: [[0.0] * 3, [0.0] * 3])
    ends = dict(innermost(machine.loops))
    warp = _Warp()
    starts = [*sorted(ends), len(machine.stream)]
    index = 0
    while index < len(machine.stream):
        looped = index in ends
        end = ends[index] if looped else starts[bisect_right(starts, index)]
        copied = any(machine.kinds[i] == "async_copy" for i in range(index, end))
        prepared = [(i, *effects(machine, machine.stream[i], machine.kinds[i])) for i in _timed(machine, (index, end))]
        steps: list[_Step] = []
        passes = (_PASSES_PIPELINED if copied else _PASSES) if looped else 1
        for _ in range(max(1, min(passes, _MOST_STEPS // max(1, len(prepared))))):
            steps = [_step(machine, warp, *one) for one in prepared]
        for at, *spent in steps:
            line = machine.lines[at]
            if line is not None:
                sums = found[line][at in machine.in_loop]
                for place, value in enumerate(spent):
                    sums[place] += value
        index = end
    return {line: (_pace(once), _pace(looped)) for line, (once, looped) in found.items()}


def _pace(sums: Sequence[float]) -> Pace:
    return Pace(round(sums[0], 1), round(sums[1], 1), round(sums[2], 3))


def _timed(machine: Machine, span: Span) -> list[int]:
    return [i for i in range(*span) if machine.stream[i].mnemonic not in _WITHOUT_TIME and i not in machine.in_rare]


def _step(machine: Machine, warp: _Warp, index: int, results: list[Register], sources: list[Register]) -> _Step:
    """Issue one instruction."""
    instruction, kind = machine.stream[index], machine.kinds[index]
    begin = warp.now + 1
    needed = max((warp.ready[one] for one in sources if one in warp.ready), default=(begin, ""))
    needed = max(needed, _awaited(instruction, warp))
    stall = max(0.0, needed[0] - begin)
    begin += stall
    cycles = 1.0
    unit = "fma" if instruction.mnemonic == "IMAD" else kind
    if kind in _BUSY:
        busy = max(0.0, warp.units.get(unit, 0.0) - begin)
        cycles += busy
        begin += busy
        warp.units[unit] = begin + _BUSY[kind]
    if instruction.mnemonic in _SYNCHRONISES:
        cycles += _BARRIER
        begin += _BARRIER
    warp.now = begin
    done: _Ready = (begin + _CYCLES.get(kind, _ALU), "")
    if kind == "load_global":
        done = (begin + MEMORY_CYCLES, "memory")
    elif kind == "mma":
        warp.busy = max(warp.busy, begin) + _MMA_BUSY
        done = (max(done[0], warp.busy), "matrix")
    for result in results:
        warp.ready[result] = done
    _start(instruction, kind, warp)
    if needed[1] == "memory":
        return index, cycles, 0.0, stall / MEMORY_CYCLES
    if needed[1] == "matrix":
        return index, cycles, stall, 0.0
    return index, cycles + stall, 0.0, 0.0


def _start(instruction: Instruction, kind: str, warp: _Warp) -> None:
    """Note what an asynchronous instruction begins."""
    if kind == "wgmma" and (shape := _WGMMA_SHAPE.search(instruction.modifiers)):
        # 64xN products of 32 bytes of K each: N/2 cycles for whatever type, at the rate of the data sheet.
        warp.busy = max(warp.busy, warp.now) + int(shape[1]) / 2
        warp.pending["products"] = warp.busy + _WGMMA_DRAIN
        if "gsb0" in instruction.operands:
            warp.products.append(warp.pending.pop("products"))
    elif instruction.mnemonic == "LDGSTS":
        warp.pending["copies"] = warp.now + MEMORY_CYCLES
    elif instruction.mnemonic == "LDGDEPBAR":
        warp.copies.append(warp.pending.pop("copies", warp.now))


def _awaited(instruction: Instruction, warp: _Warp) -> _Ready:
    """Return until when an instruction waits for asynchronous groups: all but as many as it names."""
    if "DEPBAR" not in instruction.mnemonic + instruction.modifiers or instruction.mnemonic == "LDGDEPBAR":
        return 0.0, ""
    groups, what = (warp.products, "matrix") if "gsb0" in instruction.operands else (warp.copies, "memory")
    left = _COUNT.search(instruction.operands)
    until = 0.0
    while len(groups) > (int(left[1], 16) if left else 0):
        until = max(until, groups.popleft())
    return until, what
