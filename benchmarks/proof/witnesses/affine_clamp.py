"""Inputs on which a wrong scaling, shifting or clamping shows."""

import math

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, alpha, beta=0.0, limit=6.0, out=None):
    y = torch.clamp(x.double() * alpha + beta, -limit, limit).to(x.dtype)
    if out is not None:
        out.copy_(y)
    return y


def typical():
    """The file's first call, smaller."""
    return randn(64, 128), 0.5


def beyond_int32():
    """Program 2**31 / 512 starts at element 2**31 of a tensor of which only its two ends exist."""
    x = spread(randn(2, 512, dtype=torch.float16), (2**31, 1))
    y = spread(torch.zeros(2, 512, dtype=torch.float16), (2**31, 1))
    last = 2**31 // 512

    def fill(x, y, *_):
        y.copy_(torch.clamp(x.double() * 0.5 + 0.25, -6.0, 6.0))

    return Direct(
        "affine_clamp_kernel", (last + 1,), (x, y, 2**31 + 512, 0.5, 0.25, 6.0), {"BLOCK": 512}, fill,
        only=((0, 0, 0), (last, 0, 0)),
    )  # fmt: skip


SPECIALS = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 3.0, -3.0])

INPUTS = {
    "other-scalars": lambda: (4 * randn(700), -1.5, 0.75),
    "odd-size": lambda: (randn(1001), 2.0),
    "small-limit": lambda: (4 * randn(600), 3.0, 0.5, 1.25),
    "specials": lambda: (SPECIALS, 2.0, 0.5),
    "bf16": lambda: (randn(1300, dtype=torch.bfloat16), 1.75, 0.25),
    "out-given": lambda: (randn(600), 0.5, 0.125, 6.0, torch.zeros(600)),
    "every-other": lambda: (randn(600)[::2], 0.5),
    "twice": lambda: Case([Host((randn(100), 0.5)), Host((randn(100, seed=1), 0.5))]),
    "beyond-int32": beyond_int32,
}
