"""Inputs on which a wrong SwiGLU shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, limit=1.0e6):
    gate, up = x.double().chunk(2, dim=1)
    gate = torch.where(gate > limit, limit, gate)
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)


def typical():
    """The file's first call, smaller."""
    return (randn(16, 2 * 176, dtype=torch.float16),)


def arguments(rows=5, width=37, dtype=torch.float32, scale=1.0):
    return ((randn(rows, 2 * width) * scale).to(dtype),)


def specials():
    (x,) = arguments()
    x[0, 0], x[1, 1], x[2, 40] = float("nan"), float("inf"), float("nan")
    x[3, 3], x[4, 4] = -80.0, -120.0
    return (x, 5.0)


def output_apart():
    """A launch whose output rows are apart, which the host function never makes."""
    (x,) = arguments()
    out = spread(torch.zeros(5, 37), (64, 1))

    def expected(out, x, _width, limit, *_):
        out.copy_(reference(x, limit))

    return Direct("swiglu_kernel", (5, 1), (out, x, 37, 2.0, 64, 74), {}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(3, 128),
    "narrow": lambda: arguments(3, 1),
    "wide": lambda: arguments(3, 400),
    "tall": lambda: arguments(140, 2),
    "limited": lambda: (*arguments(scale=3.0), 1.5),
    "gaps": lambda: (spread(arguments()[0], (99, 1)),),
    "far_apart": lambda: (spread(arguments(3, 20)[0], (1 << 30, 1)),),
    "large": lambda: (randn(3, 60) * 1e3 + 7e4,),
    "negative": lambda: (-randn(3, 60).abs() * 30 - 1,),
    "specials": specials,
    "half": lambda: arguments(dtype=torch.float16, scale=4.0),
    "bf16": lambda: arguments(dtype=torch.bfloat16),
    "output_apart": output_apart,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
