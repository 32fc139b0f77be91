"""Inputs on which a wrong softmax over several blocks shows. The block is 1024 long."""

import math

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x):
    return torch.softmax(x.double(), dim=-1).to(x.dtype)


def typical():
    """The file's first call, smaller."""
    return (randn(2, 4, 2048, dtype=torch.bfloat16),)


def one_high_start():
    x = randn(3, 2000)
    x[:, 5] += 200
    return (x,)


def first_block_empty():
    x = randn(2, 2500)
    x[0, :1024] = -math.inf
    x[1, 1024:2048] = -math.inf
    return (x,)


def row_of_minus_infinity():
    x = randn(3, 1500)
    x[1] = -math.inf
    return (x,)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x = spread(randn(3, 70, dtype=torch.float16), (2**30, 1))
    y = torch.zeros(3, 70, dtype=torch.float16)

    def fill(x, y, *_):
        y.copy_(torch.softmax(x.double(), dim=1))

    return Direct("long_softmax_kernel", (3,), (x, y, 2**30, 70, 70), {"BLOCK": 64}, fill)


# Where the values are in the hundreds, one rounding of an input is this much of a result.
INPUTS = {
    "tail": lambda: (randn(3, 1500),),
    "rising": lambda: (torch.linspace(-30, 30, 2600).repeat(2, 1) + 0.1 * randn(2, 2600),),
    "one-high-start": one_high_start,
    "very-low": lambda: Case([Host((randn(2, 1100) - 500,))], tolerance=1e-4),
    "first-block-empty": first_block_empty,
    "row-of-minus-infinity": row_of_minus_infinity,
    "nine-blocks": lambda: (randn(2, 9000),),
    "vocabulary": lambda: (randn(1, 33000),),
    "padded": lambda: (randn(5, 1300)[:, :1200],),
    "transposed": lambda: (randn(600, 5).t(),),
    "beyond-int32": beyond_int32,
}
