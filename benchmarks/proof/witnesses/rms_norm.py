"""Inputs on which a wrong RMS normalisation shows."""

import math

import torch
from cases import Case, Direct, Host, randn, spread


def reference(X, W, eps=1e-6, offset=0.0):
    x = X.double()
    rstd = torch.rsqrt(x.pow(2).mean(-1) + eps)
    y = x * rstd[..., None] * (offset + W.double())
    return y.to(X.dtype), rstd.reshape(-1).float()


def typical():
    """The file's first call, smaller."""
    return randn(2, 4, 256, dtype=torch.bfloat16), randn(256, dtype=torch.bfloat16, seed=1)


def specials():
    x = randn(5, 40)
    x[0, 2] = math.inf
    x[1, 3] = math.nan
    x[2] = 0.0
    return x, randn(40, seed=1)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    x, y = spread(randn(3, 60, dtype=torch.float16), (2**30, 1)), torch.zeros(3, 60, dtype=torch.float16)

    def fill(y, _ys, x, _xs, w, rstd, *_):
        y.copy_(reference(x, w)[0])
        rstd.copy_(reference(x, w)[1])

    args = (y, 60, x, 2**30, randn(60, seed=1).half(), torch.zeros(3), 60, 1e-6, 0.0)
    return Direct("_rms_norm_fwd", (3,), args, {"BLOCK": 64}, fill)


def twice():
    weight = randn(32, seed=1)
    return Case([Host((randn(4, 32), weight)), Host((2 * randn(4, 32, seed=2), weight))])


INPUTS = {
    "ragged": lambda: (randn(6, 100), randn(100, seed=1), 1e-5),
    "tiny": lambda: (1e-4 * randn(6, 64), randn(64, seed=1), 1e-5),
    "large-eps": lambda: (randn(6, 64), randn(64, seed=1), 0.5),
    "offset": lambda: (randn(6, 64), randn(64, seed=1), 1e-6, 1.0),
    "bf16": lambda: (randn(2, 3, 200, dtype=torch.bfloat16), randn(200, dtype=torch.bfloat16, seed=1)),
    "large-values": lambda: (300 * randn(4, 80), randn(80, seed=1)),
    "padded": lambda: (randn(7, 96)[:, :80], randn(80, seed=1)),
    "block-of-4096": lambda: (randn(2, 3000), randn(3000, seed=1)),
    "twice": twice,
    "specials": specials,
    "beyond-int32": beyond_int32,
}
