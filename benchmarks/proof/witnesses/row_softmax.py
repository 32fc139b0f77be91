"""Inputs on which a wrong softmax over whole rows shows."""

import math

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x):
    return torch.softmax(x.double(), dim=1).to(x.dtype)


def typical():
    """The file's first call, smaller."""
    return (randn(64, 128),)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x = spread(randn(3, 96, dtype=torch.float16), (2**30, 1))
    out = torch.zeros(3, 96, dtype=torch.float16)

    def fill(out, x, *_):
        out.copy_(torch.softmax(x.double(), dim=1))

    return Direct("softmax_kernel", (2,), (out, x, 2**30, 96, 3, 96), {"BLOCK_SIZE": 128}, fill)


def output_apart():
    """A launch whose output rows are apart, which the host function never makes."""
    x, out = randn(6, 50), spread(torch.zeros(6, 50), (64, 1))

    def fill(out, x, *_):
        out.copy_(torch.softmax(x.double(), dim=1))

    return Direct("softmax_kernel", (6,), (out, x, 50, 64, 6, 50), {"BLOCK_SIZE": 64}, fill)


def infinities():
    x = randn(5, 37)
    x[0, 3] = -math.inf
    x[1] = -math.inf
    x[2, 5] = math.inf
    x[3, 36] = math.nan
    return (x,)


# Where the values are in the thousands, one rounding of an input is this much of a result.
INPUTS = {
    "ragged": lambda: (randn(7, 100),),
    "low-rows": lambda: (randn(4, 100) - 5,),
    "very-low-rows": lambda: Case([Host((randn(4, 33) - 2e4,))], tolerance=2e-3),
    "high-rows": lambda: (torch.where(torch.eye(50) > 0, 200.0, randn(50, 50)),),
    "infinities": infinities,
    "padded": lambda: (randn(20, 64)[:, :50],),
    "padded-781": lambda: (randn(3, 800)[:, :781],),
    "transposed": lambda: (randn(40, 30).t(),),
    "many-rows": lambda: (randn(300, 12),),
    "long-rows": lambda: (randn(2, 5000),),
    "half": lambda: (randn(6, 200, dtype=torch.float16),),
    "beyond-int32": beyond_int32,
    "output-apart": output_apart,
}
