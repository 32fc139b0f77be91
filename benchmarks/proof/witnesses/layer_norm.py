"""Inputs on which a wrong layer normalisation shows. The block is 1024 long at most."""

import math

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, weight, bias, eps=1e-5):
    rows = x.double().reshape(-1, x.shape[-1])
    mean = rows.mean(1)
    rstd = torch.rsqrt((rows - mean[:, None]).pow(2).mean(1) + eps)
    y = (rows - mean[:, None]) * rstd[:, None] * weight.double() + bias.double()
    return y.reshape(x.shape).to(x.dtype), mean.float(), rstd.float()


def typical():
    """The file's first call, smaller."""
    half = torch.float16
    return randn(16, 256, dtype=half) * 0.5 - 2.3, randn(256, dtype=half, seed=1), randn(256, dtype=half, seed=2), 1e-5


def affine(x, *rest):
    width = x.shape[-1]
    return x, randn(width, dtype=x.dtype, seed=1), randn(width, dtype=x.dtype, seed=2), *rest


def specials():
    x = randn(5, 40)
    x[0, 2] = math.inf
    x[1, 3] = math.nan
    x[2] = 0.0
    return affine(x)


def infinite_mean():
    """A mean that is infinite, with more than one tile behind the infinity."""
    x = randn(2, 1300)
    x[0, 2] = math.inf
    return affine(x)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    half = torch.float16
    x, w, b = affine(randn(3, 60, dtype=half))
    y, mean, rstd = torch.zeros(3, 60, dtype=half), torch.zeros(3), torch.zeros(3)

    def fill(x, y, w, b, mean, rstd, *_):
        for target, value in zip((y, mean, rstd), reference(x, w, b), strict=True):
            target.copy_(value)

    args = (spread(x, (2**30, 1)), y, w, b, mean, rstd, 2**30, 60, 1e-5)
    return Direct("_layer_norm_fwd_fused", (3,), args, {"BLOCK_SIZE": 64}, fill)


INPUTS = {
    "tail": lambda: affine(randn(4, 1300) + 0.5),
    "two-tiles": lambda: affine(randn(3, 2048) + 0.5),
    "narrow": lambda: affine(randn(9, 7)),
    # The mean is off by some roundings of 3000, which is about 1e-3 of a deviation of 1.
    "large-offset": lambda: Case([Host(affine(randn(4, 900) + 3000))], tolerance=2e-3),
    "constant-rows": lambda: affine(1e-3 * randn(4, 64)),
    "large-eps": lambda: affine(randn(4, 64), 0.25),
    "padded": lambda: affine(randn(5, 200)[:, :130]),
    "transposed": lambda: affine(randn(90, 6).t()),
    "half-with-offset": lambda: affine(randn(2, 3, 300, dtype=torch.float16) * 0.01 + 2),
    "specials": specials,
    "infinite-mean": infinite_mean,
    "beyond-int32": beyond_int32,
}
