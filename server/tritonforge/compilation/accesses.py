"""How much memory traffic an access makes, from the strides of its addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tritonforge.compilation.mlir import Type
from tritonforge.compilation.values import Known, Number

SECTOR = 32
"""Bytes of the smallest unit that moves between L1, L2 and memory on NVIDIA GPUs since Volta."""


def moved_bytes(address: Known, block: Type) -> float:
    """Return the bytes of the 32-byte sectors that one access of a block touches.

    Lanes along a dimension of stride 0 read the same bytes, once. Runs along the dimension of the smallest stride share
    sectors; every run starts a sector of its own, as does each piece in which lanes step evenly. Lanes of unknown
    stride (data-dependent addresses) are taken to lie in sectors of their own.
    """
    if not block.shape:
        return float(max(block.size, SECTOR))
    strides = address.strides if len(address.strides) == len(block.shape) else (None,) * len(block.shape)
    distinct = [(s, n) for s, n in zip(strides, block.shape, strict=True) if s != 0 and n > 1]
    if not distinct:
        return float(SECTOR)
    count = 1
    for _, extent in distinct:
        count *= extent
    known = sorted((abs(s), n) for s, n in _pieces(address, strides, block.shape) if s is not None)
    if not known:
        return float(count * SECTOR)
    # Dimensions that continue each other (the stride of one is the span of the next smaller) make one longer run.
    stride, run = known[0]
    for step, further in known[1:]:
        if step > stride * run:
            break
        run *= further
    span = min(float(run * SECTOR), max(float(SECTOR), run * stride * block.size))
    return count / run * span


def _pieces(
    address: Known, strides: Sequence[Number | None], shape: Sequence[int]
) -> Iterator[tuple[Number | None, Number]]:
    """Yield stride and extent of each dimension along which lanes differ, the extent that of an even piece."""
    runs = address.runs or (None,) * len(shape)
    for stride, extent, run in zip(strides, shape, runs, strict=True):
        if stride != 0 and extent > 1:
            yield stride, min(extent, run.length) if run is not None and run.step else extent
