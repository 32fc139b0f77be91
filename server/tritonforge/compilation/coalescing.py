"""How the lanes of a warp fall on sectors of memory, from a register layout and the addresses of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.compilation.accesses import SECTOR
from tritonforge.compilation.divisors import ANY, Divisor
from tritonforge.compilation.layouts import Layout, Vector
from tritonforge.compilation.values import Known, Number

_GROUPS = 5
"""Of so many bits of the register number, beyond those of one instruction, all values are looked at."""
WIDEST = 16
"""The most bytes that one lane moves with one instruction (Blackwell's 32 need what Triton does not emit yet)."""


@dataclass(frozen=True)
class Sectors:
    """What `GlobalAccess` has of sectors, under the same names."""

    sectors: float
    sectors_needed: float
    overfetch: float


def sectors_of(address: Known, layout: Layout, size: float, lane_bytes: int) -> Sectors | None:
    """Count the sectors that the instructions of one warp touch for a block.

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
    steps_inside, groups = registers[:per_lane], registers[per_lane:]
    whole = all(step == size * (1 << bit) for bit, step in enumerate(steps_inside))
    width = float(lane_bytes) if whole else size
    places = _sums(lanes) if whole else [lane + inside for lane in _sums(lanes) for inside in _sums(steps_inside)]
    base = float(address.base or 0) * size
    offsets = _sums(groups[:_GROUPS])
    touched = [len(_touched(places, start, size, width)) for start in {(base + offset) % SECTOR for offset in offsets}]
    everything = [place + offset for offset in offsets for place in places]
    overfetch = len(_touched(everything, base, size, width)) / _needed(everything, size, width)
    return Sectors(sum(touched) / len(touched), float(_needed(places, size, width)), max(1.0, overfetch))


def _touched(places: Sequence[float], start: float, size: float, width: float) -> set[int]:
    """Return the sectors of accesses of `width` bytes to elements of `size` bytes."""
    sectors: set[int] = set()
    for place in set(places):
        first = start + math.floor(place / size) * size
        low, high = int(first // SECTOR), int((first + width - 1) // SECTOR)
        sectors.add(low)
        if high > low:
            sectors.update(range(low + 1, high + 1))
    return sectors


def _needed(places: Sequence[float], size: float, width: float) -> int:
    return max(1, math.ceil(len({math.floor(place / size) for place in places}) * width / SECTOR))


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
