"""Inputs on which a wrong masked sum shows. Blocks are 4 rows of 128 columns."""

import math

import torch
from cases import Direct, randint, randn, spread


def reference(x, valid):
    whole = not x.dtype.is_floating_point
    kept = torch.where(valid, x.long() if whole else x.double(), 0)
    return kept.sum(1).to(torch.int64 if whole else torch.float32), valid.sum(1).to(torch.int32)


def valid_for(x, seed=7):
    return torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) < 0.8


def typical():
    """The file's first call, smaller."""
    x = randn(64, 256)
    return x, valid_for(x)


def nan_where_invalid():
    x = randn(6, 150)
    valid = valid_for(x)
    x[~valid] = math.nan
    return x, valid


def invalid_rows():
    x = randn(6, 150)
    valid = valid_for(x)
    valid[2] = False
    return x, valid


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x = spread(randn(3, 60, dtype=torch.float16), (2**30, 1))
    valid = valid_for(x).to(torch.uint8)

    def fill(x, valid, sums, counts, *_):
        for target, value in zip((sums, counts), reference(x, valid != 0), strict=True):
            target.copy_(value)

    import triton.language as tl

    args = (x, valid, torch.zeros(3), torch.zeros(3, dtype=torch.int32), 3, 60, 2**30, 60)
    return Direct("masked_row_sum_kernel", (1,), args, {"ACC": tl.float32, "BLOCK_R": 4, "BLOCK_C": 64}, fill)


def with_validity(x):
    return x, valid_for(x)


INPUTS = {
    "ragged": lambda: with_validity(randn(7, 200)),
    "padded": lambda: with_validity(randn(9, 200)[:, :130]),
    "transposed": lambda: with_validity(randn(140, 9).t()),
    "large-integers": lambda: with_validity(randint(2**29, 2**30, (5, 300), torch.int32)),
    "odd-integers": lambda: with_validity(2 * randint(2**25, 2**28, (5, 300), torch.int32) + 1),
    "nan-where-invalid": nan_where_invalid,
    "invalid-rows": invalid_rows,
    "wide": lambda: with_validity(randn(3, 2500)),
    "many-rows": lambda: with_validity(randn(4100, 5)),
    "beyond-int32": beyond_int32,
}
