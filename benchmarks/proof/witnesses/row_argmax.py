"""Inputs on which a wrong maximum shows. The block is 1024 long unless it is given."""

import math

import torch
from cases import Direct, randint, randn, spread


def reference(x, block=1024):
    values, indices = torch.max(x.double(), dim=1)
    # The first of equals, which torch.max does not promise.
    same = (x.double() == values[:, None]) | (x.isnan() & values.isnan()[:, None])
    return values.to(x.dtype), torch.where(same.any(1), same.int().argmax(1), indices)


def typical():
    """The file's first call, smaller."""
    return (randn(16, 2048, dtype=torch.float16),)


def marked(column, width=2100):
    x = randn(3, width)
    x[:, column] = 9.0
    return (x,)


def ties_between_blocks():
    x = randn(3, 2100)
    x[:, 100] = x[:, 1500] = 9.0
    return (x,)


def nan():
    x = randn(4, 1500)
    x[0, 3] = x[0, 1200] = x[1, 1400] = math.nan
    x[2, 5], x[2, 7] = math.inf, math.nan
    return (x,)


def infinities():
    x = randn(4, 50)
    x[0, 7] = x[0, 30] = math.inf
    x[1] = -math.inf
    x[2, :49] = -math.inf
    return (x,)


def close_values():
    x = torch.ones(3, 90)
    x[:, 40] = 1.0001
    return (x,)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x = spread(randn(3, 60, dtype=torch.float16), (2**30, 1))

    def fill(x, values, indices, *_):
        for target, value in zip((values, indices), reference(x), strict=True):
            target.copy_(value)

    args = (x, torch.zeros(3), torch.zeros(3, dtype=torch.int64), 60, 2**30)
    return Direct("argmax_kernel", (3,), args, {"BLOCK": 64}, fill)


INPUTS = {
    "ties": lambda: (randint(0, 4, (8, 40)).float(),),
    "ties-between-blocks": ties_between_blocks,
    "negative": lambda: (-1 - randn(5, 45).abs(),),
    "first-block": lambda: marked(17),
    "second-block": lambda: marked(2070),
    "rising": lambda: (torch.arange(130.0).repeat(3, 1),),
    "nan": nan,
    "infinities": infinities,
    "padded": lambda: (randn(6, 100)[:, :70],),
    "transposed": lambda: (randn(70, 6).t(),),
    "close-values": close_values,
    "small-blocks": lambda: (randn(3, 700), 64),
    "beyond-int16": lambda: marked(40000, 40500),
    "beyond-int32": beyond_int32,
}
