"""Shared-memory layouts of `ttgir`, and the bank conflicts that register layouts meet in them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tritonforge.compilation.layouts import Layout, Vector, number, numbers, resolved

BANK = 4
"""Bytes of one bank's word."""
_HEAD = re.compile(r"^#(?:\w+\.)*(\w+)<")
Offset = Callable[[Vector], int]
"""The place of an element in shared memory, in elements."""


def read_offsets(encoding: str, shape: Vector, aliases: Mapping[str, str], size: float) -> Offset | None:
    """Return where a shared-memory layout puts an element of a block, or None for a kind that is not understood.

    The rules are those of `SwizzledSharedEncodingAttr` and `NVMMASharedEncodingAttr` in Triton's
    `TritonGPUAttrDefs.td`.
    """
    text = resolved(encoding, aliases)
    head = _HEAD.match(text)
    if head is None or len(shape) not in {1, 2} or any(extent & (extent - 1) for extent in shape):
        return None
    try:
        if head[1] in {"swizzled_shared", "shared"}:
            order = numbers(text, "order")
            swizzle = _Swizzle(number(text, "vec"), number(text, "perPhase"), number(text, "maxPhase"))
            return _swizzled(shape, order, swizzle)
        if head[1] == "nvmma_shared" and len(shape) == 2 and "fp4Padded = true" not in text:
            span = number(text, "swizzlingByteWidth")
            order = (0, 1) if "transposed = true" in text else (1, 0)
            if span == 0:
                return None
            # Rows of `span` bytes, tiles of them one after the other; chunks of 16 bytes change places row by row.
            swizzle = _Swizzle(max(1, round(16 / size)), max(1, 128 // span), max(1, span // 16))
            return _tiled(shape, order, round(span / size), swizzle)
    except (ValueError, IndexError):
        return None
    return None


@dataclass(frozen=True)
class _Swizzle:
    """Chunks of `vec` elements change places with each other: another way every `per_phase` rows, `max_phase` ways."""

    vec: int
    per_phase: int
    max_phase: int

    def column(self, row: int, column: int) -> int:
        """Return where a column of a row lies."""
        phase = (row // self.per_phase) % self.max_phase
        return ((column // self.vec) ^ phase) * self.vec + column % self.vec


def _swizzled(shape: Vector, order: Vector, swizzle: _Swizzle) -> Offset:
    if len(shape) == 1:
        return lambda at: at[0]
    fast, slow = order[0], order[1]

    def offset(at: Vector) -> int:
        return at[slow] * shape[fast] + swizzle.column(at[slow], at[fast])

    return offset


def _tiled(shape: Vector, order: Vector, width: int, swizzle: _Swizzle) -> Offset:
    fast, slow = order

    def offset(at: Vector) -> int:
        row, column = at[slow], at[fast]
        tile, inside = divmod(column, width)
        return (tile * shape[slow] + row) * width + swizzle.column(row, inside)

    return offset


def conflict_ways(layout: Layout, offset: Offset, size: float, *, banks: int = 32, matrix: int | None = None) -> float:
    """Return the wavefronts that a warp's accesses take ÷ the fewest that could move their bytes (1: no conflict).

    Lanes move as many consecutive elements at once as their registers hold, at most 16 bytes. As many lanes are served
    at a time as there are banks; half as many by 8-byte accesses, a quarter by 16-byte ones. Lanes that want the same
    word get it together. `matrix` is the dimension along which rows of eight 16-byte pieces are read by `ldmatrix` with
    a transpose, None without one.
    """
    if matrix is not None:
        return _matrix_ways(layout, offset, size, banks, matrix)
    rank = len(layout.lane[0]) if layout.lane else len(layout.register[0]) if layout.register else 1
    origin = (0,) * rank
    within = 1
    bits = 0
    start = offset(origin)
    while within * size < 16 and bits < len(layout.register) and offset(layout.register[bits]) - start == within:
        within *= 2
        bits += 1
    width = within * size
    lanes = _positions(layout.lane, origin)
    at_once = min(len(lanes), banks)
    together = at_once if width <= BANK else max(1, round(at_once * BANK / width))
    taken = fewest = 0
    for register in _positions(layout.register[bits : bits + 3], origin):
        for first in range(0, len(lanes), together):
            words = [
                int(offset(_xor(lane, register)) * size) // BANK + word
                for lane in lanes[first : first + together]
                for word in range(max(1, round(width / BANK)))
            ]
            taken += _wavefronts(words, banks)
            fewest += math.ceil(len(set(words)) / banks)
    return taken / fewest if fewest else 1.0


def _matrix_ways(layout: Layout, offset: Offset, size: float, banks: int, dim: int) -> float:
    piece = round(16 / size)
    rank = len(layout.lane[0]) if layout.lane else 2
    words: list[int] = []
    for row in range(8):
        at = tuple(row if d == dim else 0 for d in range(rank))
        first = int(offset(at) * size) // BANK
        words += [first + word for word in range(piece * round(size) // BANK)]
    return _wavefronts(words, banks) / max(1, math.ceil(len(set(words)) / banks))


def _wavefronts(words: Sequence[int], banks: int) -> int:
    by_bank: defaultdict[int, set[int]] = defaultdict(set)
    for word in words:
        by_bank[word % banks].add(word)
    return max(len(one) for one in by_bank.values())


def _positions(vectors: Sequence[Vector], origin: Vector) -> list[Vector]:
    found = [origin]
    for vector in vectors:
        found += [_xor(one, vector) for one in found]
    return found


def _xor(a: Vector, b: Vector) -> Vector:
    return tuple(x ^ y for x, y in zip(a, b, strict=True))
