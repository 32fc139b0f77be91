"""Inputs on which a wrong backward of layer normalisation shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(dy, x, weight, mean, rstd):
    dy64, x64, w64 = dy.double(), x.double(), weight.double()
    x_hat = (x64 - mean.double()[:, None]) * rstd.double()[:, None]
    wdy = w64 * dy64
    c1 = (x_hat * wdy).mean(1, keepdim=True)
    c2 = wdy.mean(1, keepdim=True)
    dx = (wdy - (x_hat * c1 + c2)) * rstd.double()[:, None]
    return dx.to(x.dtype), (dy64 * x_hat).sum(0).to(weight.dtype), dy64.sum(0).to(weight.dtype)


def arguments(rows=21, cols=70, dtype=torch.float32, scale=1.0, shift=0.3):
    x = (randn(rows, cols) + shift).to(dtype)
    mean = x.double().mean(1).float()
    rstd = (x.double().var(1, unbiased=False) + 1e-5).rsqrt().float()
    dy = (randn(rows, cols, seed=1) * scale + 0.1).to(dtype)
    return dy, x, randn(cols, dtype=dtype, seed=2), mean, rstd


def typical():
    """The file's first call, smaller."""
    return arguments(32, 64)


def gaps():
    dy, x, weight, mean, rstd = arguments()
    return spread(dy, (90, 1)), spread(x, (77, 1)), weight, mean, rstd


def specials():
    dy, x, weight, mean, rstd = arguments()
    dy[3, 5] = float("nan")
    x[10, 7] = float("inf")
    return dy, x, weight, mean, rstd


def cancelling():
    """Sums over rows that fit in half precision although those of a block of eight do not."""
    dy, x, weight, mean, rstd = arguments(16, 40, torch.float16)
    dy[:8], dy[8:] = 10000.0, -10000.0
    dy[8:, ::2] += 8.0
    return dy, x, weight * 1e-3, mean, rstd


def odd_statistics():
    """Statistics that are not those of the rows, as after a fused residual."""
    dy, x, weight, mean, rstd = arguments()
    return dy, x, weight, mean + 0.7, rstd * 1.5


def other_rows_per_program():
    """A launch with five rows a program and output rows apart, which the host function never makes."""
    dy, x, weight, mean, rstd = arguments()
    dx = spread(torch.zeros(21, 70), (80, 1))
    dw, db = torch.zeros(5, 70), torch.zeros(5, 70)

    def expected(dx, dw, db, dy, x, weight, mean, rstd, *_):
        dx.copy_(reference(dy, x, weight, mean, rstd)[0])
        for part in range(5):
            rows = slice(part * 5, part * 5 + 5)
            _, dw[part], db[part] = reference(dy[rows], x[rows], weight, mean[rows], rstd[rows])

    args = (dx, dw, db, dy, x, weight, mean, rstd, 21, 70, 80, 70, 70, 5)
    return Direct("dx_partial_kernel", (5,), args, {"BLOCK": 128}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(16, 64),
    "one_row": lambda: arguments(1, 40),
    "narrow": lambda: arguments(9, 2),
    "tall": lambda: arguments(140, 5),
    "gaps": gaps,
    "specials": specials,
    "large": lambda: arguments(scale=1e6),
    "half": lambda: arguments(dtype=torch.float16),
    "cancelling": cancelling,
    "odd_statistics": odd_statistics,
    "other_rows_per_program": other_rows_per_program,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
