"""How the lanes of a warp fall on sectors of memory, from a register layout and the addresses of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritonforge.compilation.accesses import SECTOR
from tritonforge.compilation.divisors import ANY, Divisor
from tritonforge.compilation.layouts import Layout, Vector
from tritonforge.compilation.values import Known, Number

WIDEST = 16
"""The most bytes that one lane moves with one instruction (Blackwell's 32 need what Triton does not emit yet)."""


def sectors_of(address: Known, layout: Layout, size: float, lane_bytes: int) -> tuple[float, float] | None:
    """Return the sectors that one warp-wide instruction touches on average, and the fewest that hold the same bytes.

    `size` is that of an element, `lane_bytes` what each lane moves with an instruction. Addresses whose first lane is
    not known are taken to start a sector. None when a stride along which lanes differ is not known.
    """
    strides = address.strides
    vectors = (*layout.register, *layout.lane)
    if any(len(vector) != len(strides) for vector in vectors):
        return None
    steps = [_step(vector, strides) for vector in vectors]
    if any(step is None for step in steps):
        return None
    known = [float(step or 0) * size for step in steps]
    registers, lanes = known[: len(layout.register)], known[len(layout.register) :]
    within = max(1, round(lane_bytes / size))
    per_lane = within.bit_length() - 1
    if per_lane > len(registers):
        return None
    inside, groups = _sums(registers[:per_lane]), registers[per_lane:]
    places = [lane + offset for lane in _sums(lanes) for offset in inside]
    base = float(address.base or 0) * size
    starts = {(base + offset) % SECTOR for offset in _sums(groups[:8])}
    touched = needed = 0.0
    for start in starts:
        sectors: set[int] = set()
        for place in places:
            first = start + math.floor(place / size) * size
            sectors.update(range(int(first // SECTOR), int((first + size - 1) // SECTOR) + 1))
        touched += len(sectors)
        needed += max(1, math.ceil(len({math.floor(place / size) for place in places}) * size / SECTOR))
    return touched / len(starts), needed / len(starts)


def widest_bytes(address: Known, divisor: Divisor, alignment: int, layout: Layout | None, size: float) -> int | None:
    """Return the most bytes of consecutive, aligned addresses that one lane could move at once, at most `WIDEST`.

    `divisor` is the alignment of the first lane in elements in every program and iteration, `alignment` that of the
    tensor in bytes. A block with fewer elements than the program has lanes leaves each lane one of them. None when the
    addresses are not known well enough.
    """
    whole = int(size)
    if not address.strides or whole != size or whole < 1:
        return None
    runs = [n for stride, n in zip(address.strides, address.shape, strict=False) if stride == 1 and n > 1]
    if any(stride is None for stride in address.strides):
        return whole if not runs else None
    if not runs:
        return whole
    if divisor is None:
        return None
    rows = [
        int(stride)
        for stride, n in zip(address.strides, address.shape, strict=False)
        if stride is not None and stride not in {0, 1} and n > 1
    ]
    apart = math.gcd(divisor if divisor < ANY else 0, *rows, runs[0])
    aligned = math.gcd((apart & -apart) * whole, alignment)
    if layout is not None:
        lanes = 1 << (len(layout.lane) + len(layout.warp))
        elements = math.prod(address.shape)
        aligned = min(aligned, max(1, elements // lanes) * whole)
    return max(whole, min(WIDEST, aligned))


def distinct_addresses(address: Known) -> int | None:
    """Return how many addresses the lanes of a block touch, or None when that depends on data."""
    if len(address.strides) != len(address.shape) or any(stride is None for stride in address.strides):
        return None
    return math.prod(n for stride, n in zip(address.strides, address.shape, strict=True) if stride != 0)


def _step(vector: Vector, strides: Sequence[Number | None]) -> float | None:
    total = 0.0
    for part, stride in zip(vector, strides, strict=True):
        if part:
            if stride is None:
                return None
            total += part * stride
    return total


def _sums(steps: Sequence[float]) -> list[float]:
    """Return the sums of all subsets, in the order of the bits."""
    found = [0.0]
    for step in steps:
        found += [one + step for one in found]
    return found
