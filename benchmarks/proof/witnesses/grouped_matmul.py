"""Inputs on which a wrong matrix product shows. Tiles are 32 x 32 x 32, groups have four tile rows."""

import torch
from cases import Direct, randn, spread

HALF = torch.float16


def reference(a, b):
    return a.double() @ b.double()


def typical():
    """The file's first call, smaller."""
    return randn(64, 64, dtype=HALF), randn(64, 96, dtype=HALF, seed=1)


def beyond_int32():
    """Rows of A are 2**27 apart: the seventeenth starts at 2**31."""
    a = spread(randn(20, 40, dtype=HALF), (2**27, 1))
    b, c = randn(40, 24, dtype=HALF, seed=1), torch.zeros(20, 24, dtype=HALF)

    def fill(a, b, c, *_):
        c.copy_(reference(a, b))

    constants = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 4}
    return Direct("matmul_kernel", (1,), (a, b, c, 20, 24, 40, 2**27, 1, 24, 1, 24, 1), constants, fill)


INPUTS = {
    "ragged": lambda: (randn(50, 70, dtype=HALF), randn(70, 45, dtype=HALF, seed=1)),
    "five-tile-rows": lambda: (randn(150, 33, dtype=HALF), randn(33, 100, dtype=HALF, seed=1)),
    # Each step adds 3.2 to a sum of hundreds, whose fp16 grid is 0.5 wide: a rounded sum loses 0.2 in every step.
    "deep": lambda: (torch.full((4, 12000), 0.1, dtype=HALF), torch.ones(12000, 5, dtype=HALF)),
    "strided": lambda: (randn(40, 96, dtype=HALF)[:, :64], randn(48, 64, dtype=HALF, seed=1).t()),
    "overflowing": lambda: (torch.full((3, 40), 200.0, dtype=HALF), torch.full((40, 5), 100.0, dtype=HALF)),
    "beyond-int32": beyond_int32,
}
