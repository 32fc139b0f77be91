"""Inputs on which a wrong quantisation shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, floor=1e-8):
    absmax = x.double().abs().amax(1).clamp_min(floor)
    # Halves are decided in float32, as the kernel says it: which side of one a product falls on is part of the result.
    y = (x.float() * (127.0 / absmax.float())[:, None]).double()
    q = torch.where(y >= 0, (y.float() + 0.5).floor(), (y.float() - 0.5).ceil()).clamp(-127, 127)
    return q.to(torch.int8), (absmax / 127).float()


def arguments(rows=6, cols=70, dtype=torch.float32, scale=1.0):
    return ((randn(rows, cols) * scale).to(dtype),)


def typical():
    """The file's first call, smaller."""
    return arguments(16, 256, torch.float16)


def halves():
    """Products that are exactly a half off a whole number, of both signs, even and odd."""
    x = torch.arange(-127.0, 127.0)[None, :].repeat(3, 1) + 0.5
    x[:, 0] = 127.0
    return (x,)


def largest_last():
    x = randn(3, 700)
    x[:, 699] = -9.0
    return (x,)


def largest_first():
    x = randn(3, 700)
    x[:, 0] = 9.0
    return (x,)


def tiny():
    x = randn(5, 40) * 1e-10
    x[2] = 0.0
    return (x,)


def output_apart():
    """A launch whose output rows are apart, which the host function never makes."""
    (x,) = arguments()
    q = spread(torch.zeros(6, 70, dtype=torch.int8), (96, 1))
    scale = torch.zeros(6)

    def expected(q, scale, x, *_):
        y, s = reference(x)
        q.copy_(y)
        scale.copy_(s)

    args = (q, scale, x, 6, 70, 96, 70, 1e-8)
    return Direct("quantize_rows_kernel", (2,), args, {"ROWS": 4, "BLOCK": 256}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(8, 256),
    "narrow": lambda: arguments(5, 1),
    "tall": lambda: arguments(540, 3),
    "halves": halves,
    "largest_last": largest_last,
    "largest_first": largest_first,
    "tiny": tiny,
    "floored": lambda: (arguments()[0], 100.0),
    "negative": lambda: (-arguments()[0].abs() - 0.5,),
    "large": lambda: arguments(scale=1e6),
    "half_range": lambda: arguments(dtype=torch.float16, scale=9000.0),
    "bf16": lambda: arguments(dtype=torch.bfloat16),
    "gaps": lambda: (spread(arguments()[0], (111, 1)),),
    "far_apart": lambda: (spread(arguments(3, 20)[0], (1 << 30, 1)),),
    "output_apart": output_apart,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=3.0))]),
}
