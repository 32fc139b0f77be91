"""Inputs on which a wrong transposition shows. Tiles are 32 x 32."""

import math

import torch
from cases import Case, Direct, Host, randint, randn, spread


def reference(x, out=None):
    y = x.transpose(-1, -2).contiguous()
    if out is not None:
        out.copy_(y)
    return y


def typical():
    """The file's first call, smaller."""
    return (randn(2, 64, 96, dtype=torch.float16),)


def strided_out():
    return randn(2, 40, 50), torch.zeros(2, 60, 90)[:, :50, :80:2]


def specials():
    x = randn(10, 12)
    x[1, 2], x[3, 4], x[5, 6] = math.nan, math.inf, -math.inf
    return (x,)


def beyond_int32():
    """Three batches, the third 2**31 elements behind the first."""
    x = spread(randn(3, 10, 12, dtype=torch.float16), (2**30, 12, 1))

    def fill(x, out, *_):
        out.copy_(x.transpose(1, 2))

    args = (x, torch.zeros(3, 12, 10, dtype=torch.float16), 10, 12, 2**30, 12, 1, 120, 10, 1)
    return Direct("transpose_kernel", (1, 1, 3), args, {"TILE": 32}, fill)


INPUTS = {
    "ragged": lambda: (randn(2, 40, 50),),
    "even-rows": lambda: (randn(2, 32, 50),),
    "tall": lambda: (randn(1030, 20),),
    "square": lambda: (randn(2, 40, 40),),
    "padded": lambda: (randn(3, 40, 64)[:, :33, :50],),
    "transposed": lambda: (randn(2, 50, 40).transpose(1, 2),),
    "strided-out": strided_out,
    "many-batches": lambda: (randn(20, 5, 6),),
    "large-integers": lambda: (randint(2**26, 2**30, (40, 50), torch.int32),),
    "specials": specials,
    "twice": lambda: Case([Host((randn(10, 20),)), Host((randn(10, 20, seed=1),))]),
    "beyond-int32": beyond_int32,
}
