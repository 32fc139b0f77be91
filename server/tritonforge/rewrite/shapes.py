"""Tiles that are known to do well, the most promising first: the order in which a search should try them.

The dot shapes are those that Triton's matmul tutorials list, led by what a sweep of a plain fp16 matmul at 4096³ on an
H200 found best (128×256×64, 8 warps, 4 stages: 672 TFLOP/s, where 64×64×32 reached 334). With 16 warps the large tiles
won there in a bf16 product of 8192×11008×4096.
"""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """A dot's tile with warps and stages; K in elements of 2 bytes (half as many of 4 bytes, twice as many of 1)."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


DOTS = (
    Shape(128, 256, 64, 8, 4),
    Shape(128, 256, 64, 8, 3),
    Shape(128, 128, 64, 8, 3),
    Shape(128, 128, 64, 4, 4),
    Shape(256, 128, 64, 8, 3),
    Shape(128, 128, 64, 8, 4),
    Shape(128, 128, 64, 4, 3),
    Shape(256, 128, 64, 8, 4),
    Shape(256, 128, 64, 16, 3),
    Shape(128, 256, 64, 16, 3),
    Shape(128, 256, 32, 8, 4),
    Shape(128, 128, 32, 4, 4),
    Shape(64, 256, 64, 4, 4),
    Shape(128, 64, 64, 4, 4),
    Shape(64, 128, 64, 4, 4),
    Shape(128, 128, 32, 8, 3),
    Shape(64, 256, 32, 4, 4),
    Shape(128, 128, 128, 8, 3),
    Shape(128, 64, 32, 4, 4),
    Shape(64, 128, 32, 4, 4),
    Shape(64, 128, 128, 4, 3),
    Shape(64, 64, 64, 4, 4),
    Shape(64, 64, 64, 4, 3),
    Shape(128, 128, 64, 4, 2),
    Shape(64, 64, 32, 4, 3),
    Shape(128, 32, 64, 4, 4),
    Shape(32, 128, 64, 4, 4),
    Shape(64, 64, 128, 4, 3),
    Shape(64, 32, 64, 4, 4),
    Shape(32, 64, 64, 4, 4),
    Shape(16, 128, 128, 4, 4),
    Shape(32, 64, 128, 4, 3),
    Shape(16, 64, 128, 4, 4),
    Shape(32, 32, 64, 2, 4),
    Shape(16, 256, 64, 4, 4),
    Shape(16, 32, 128, 2, 4),
)

LINES = (
    (1024, 4),
    (2048, 8),
    (4096, 8),
    (2048, 4),
    (1024, 8),
    (4096, 16),
    (512, 4),
    (8192, 16),
    (8192, 8),
    (4096, 4),
    (1024, 2),
    (512, 2),
    (2048, 16),
    (256, 4),
    (16384, 16),
    (256, 2),
    (512, 1),
    (256, 1),
    (128, 4),
    (128, 2),
    (128, 1),
)
"""Elements and warps of a one-dimensional block."""

WARPS = (4, 8, 2, 16, 1)
STAGES = (3, 4, 2, 5, 1)
