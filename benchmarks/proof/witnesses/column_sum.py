"""Inputs on which a wrong column reduction shows. Blocks are 32 rows of 64 columns."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, splits=8):
    x = x.double()
    return x.sum(0).float(), x.abs().amax(0).float()


def typical():
    """The file's first call, smaller."""
    return (randn(256, 128, dtype=torch.bfloat16),)


def peaks_apart():
    """Each split has its own largest value, and the first split the largest of all."""
    x = 0.01 * randn(80, 70)
    x[3] = -40
    x[75] = 5
    return (x,)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x = spread(randn(3, 60, dtype=torch.float16), (2**30, 1))

    def fill(x, sums, peaks, *_):
        for target, value in zip((sums, peaks), reference(x), strict=True):
            target.copy_(value)

    args = (x, torch.zeros(60), torch.zeros(60), 3, 60, 2**30, 1, 3)
    return Direct("column_sum_kernel", (1, 1), args, {"BLOCK_M": 4, "BLOCK_N": 64}, fill)


INPUTS = {
    "ragged": lambda: (randn(83, 70) + 0.5,),
    "tall": lambda: (randn(600, 20),),
    "tiny": lambda: (1e-5 * randn(50, 20),),
    "sixteen-splits": lambda: (randn(100, 20), 16),
    "transposed": lambda: (randn(40, 90).t(), 4),
    "padded": lambda: (randn(50, 64)[:, :40],),
    "peaks-apart": peaks_apart,
    "twice": lambda: Case([Host((randn(50, 20),)), Host((randn(50, 20, seed=1),))]),
    "beyond-int32": beyond_int32,
}
