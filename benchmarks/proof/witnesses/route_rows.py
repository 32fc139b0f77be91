"""Inputs on which a wrong routing of rows shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(src, slots, weights, n_slots):
    buffer = torch.zeros(n_slots, src.shape[1], dtype=src.dtype)
    out = torch.zeros(src.shape, dtype=torch.float64)
    for row, slot in enumerate(slots.tolist()):
        if 0 <= slot < n_slots:
            buffer[slot] = src[row]
            out[row] = src[row].double() * weights[row].double()
    return buffer, out.to(src.dtype)


def arguments(n=37, width=70, n_slots=30, dtype=torch.float32):
    """A permutation of more slots than there are, with a few rows dropped."""
    slots = torch.randperm(n, generator=torch.Generator().manual_seed(5)).int()
    slots[3] = -1
    weights = torch.rand(n, generator=torch.Generator().manual_seed(6)) + 0.5
    return randn(n, width, dtype=dtype), slots, weights, n_slots


def typical():
    """The file's first call, smaller."""
    return arguments(64, 128, 48, torch.float16)


def nowhere():
    src, slots, weights, n_slots = arguments()
    slots[::2] = -7
    slots[1::4] = n_slots
    return src, slots, weights, n_slots


def specials():
    src, slots, weights, n_slots = arguments()
    src[0, 0], src[1, 1], src[2, 2] = float("nan"), float("inf"), -0.0
    slots[:3] = torch.tensor([0, 1, 2])
    slots[3:] = torch.arange(3, 37)
    weights[3] = float("nan")
    slots[3] = -1
    return src, slots, weights, n_slots


def large():
    src, slots, weights, n_slots = arguments()
    return src * 1e6, slots, weights, n_slots


def strided_scatter():
    """A launch of the first kernel into a buffer whose rows are apart, which the host function never makes."""
    src, slots, _, n_slots = arguments()
    dst = spread(torch.zeros(n_slots, 70), (96, 1))

    def expected(dst, src, slots, *_):
        dst.copy_(reference(src, slots, torch.ones(37), n_slots)[0])

    args = (dst, src, slots, 37, n_slots, 70, 96, 70)
    return Direct("scatter_rows_kernel", (3, 2), args, {"ROWS": 16, "COLS": 64}, expected)


def strided_gather():
    """A launch of the second kernel from a buffer whose rows are apart, into such an output."""
    _, slots, weights, n_slots = arguments()
    src = spread(randn(n_slots, 70, seed=9), (80, 1))
    out = spread(torch.zeros(37, 70), (96, 1))

    def expected(out, src, slots, weights, *_):
        for row, slot in enumerate(slots.tolist()):
            out[row] = src[slot] * weights[row] if 0 <= slot < n_slots else 0.0

    args = (out, src, slots, weights, 37, n_slots, 70, 96, 80)
    return Direct("gather_rows_kernel", (3, 2), args, {"ROWS": 16, "COLS": 64}, expected)


def two_rounds():
    src, slots, weights, n_slots = arguments()
    return Case([Host((src, slots, weights, n_slots)), Host((src, slots.flip(0), weights, n_slots))])


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(32, 64, 32),
    "narrow": lambda: arguments(37, 1, 30),
    "tall": lambda: arguments(200, 5, 150),
    "wide": lambda: arguments(20, 300, 15),
    "roomy": lambda: arguments(20, 30, 90),
    "nowhere": nowhere,
    "specials": specials,
    "large": large,
    "gaps": lambda: (spread(arguments()[0], (101, 1)), *arguments()[1:]),
    "half": lambda: arguments(dtype=torch.float16),
    "strided_scatter": strided_scatter,
    "strided_gather": strided_gather,
    "twice": two_rounds,
}
