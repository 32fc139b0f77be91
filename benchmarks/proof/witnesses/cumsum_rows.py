"""Inputs on which a wrong cumulative sum shows. The block is 512 long."""

import math

import torch
from cases import Direct, randint, randn, spread


def reference(x, exclusive=False):
    floating = x.dtype.is_floating_point
    wide = x.double() if floating else x.long()
    scanned = wide.cumsum(1)
    if exclusive:
        scanned = torch.cat([torch.zeros_like(scanned[:, :1]), scanned[:, :-1]], dim=1)
    return scanned.to(torch.float32 if floating else torch.int64)


def typical():
    """The file's first call, smaller."""
    return (randn(8, 1024).abs(),)


def infinity_first():
    x = randn(2, 700)
    x[0, 3] = math.inf
    x[1, 5] = math.nan
    return (x,)


def beyond_int32():
    """Three rows, the third 2**31 elements behind the first."""
    import triton.language as tl

    x = spread(randn(3, 60, dtype=torch.float16), (2**30, 1))

    def fill(x, out, *_):
        out.copy_(reference(x))

    args = (x, torch.zeros(3, 60), 60, 2**30, 60)
    return Direct("_cumsum_kernel", (3,), args, {"EXCLUSIVE": False, "ACC": tl.float32, "BLOCK": 64}, fill)


INPUTS = {
    "two-blocks": lambda: (randn(3, 700),),
    "three-blocks": lambda: (randn(3, 1400).abs(),),
    "eleven-blocks": lambda: (randn(1, 5500),),
    "signed": lambda: (randn(3, 1400) - 0.5,),
    "exclusive-floats": lambda: (randn(3, 700), True),
    "exclusive-integers": lambda: (randint(-50, 50, (3, 1100), torch.int32), True),
    "large-integers": lambda: (randint(2**26, 2**30, (3, 600), torch.int32),),
    "padded": lambda: (randn(6, 700)[:, :600],),
    "transposed": lambda: (randn(600, 4).t(),),
    "half": lambda: (randn(3, 600, dtype=torch.float16),),
    "infinity-first": infinity_first,
    "beyond-int32": beyond_int32,
}
