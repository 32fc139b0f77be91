"""Inputs on which a wrong dropout shows.

Which elements are kept is Philox's business; the reference has its own, after Salmon et al., Parallel Random Numbers:
As Easy as 1, 2, 3 (2011), with the ten rounds and the conversion to [0, 1) that Triton documents.
"""

import torch
from cases import Case, Direct, Host, randn, spread

_LOW = 0xFFFFFFFF


def philox(seed, offset):
    """Return the first word of Philox-4x32-10 for a 64-bit seed and a counter of (offset, 0, 0, 0)."""
    c = [offset & _LOW, 0, 0, 0]
    key = [seed & _LOW, seed >> 32 & _LOW]
    for _ in range(10):
        high_a, low_a = divmod(0xD2511F53 * c[0], 1 << 32)
        high_b, low_b = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high_b ^ c[1] ^ key[0], low_b, high_a ^ c[3] ^ key[1], low_a]
        key = [(key[0] + 0x9E3779B9) & _LOW, (key[1] + 0xBB67AE85) & _LOW]
    return c[0]


def uniform(seed, offset):
    word = philox(seed, offset)
    signed = word - (1 << 32) if word >> 31 else word
    return (-signed - 1 if signed < 0 else signed) * 4.6566127342e-10


def reference(x, residual, p, seed):
    rows, cols = x.shape
    drawn = torch.tensor([uniform(seed, at) for at in range(rows * cols)], dtype=torch.float64).view(rows, cols)
    kept = drawn >= p
    scaled = torch.where(kept, x.double() / (1 - p), 0.0)
    return (scaled + residual.double()).to(x.dtype), kept.to(torch.int8)


def arguments(rows=4, cols=70, p=0.3, seed=1234, dtype=torch.float32):
    return randn(rows, cols, dtype=dtype), randn(rows, cols, dtype=dtype, seed=1), p, seed


def typical():
    """The file's first call, smaller."""
    return arguments(16, 96, 0.1, dtype=torch.float16)


def specials():
    x, residual, p, seed = arguments(p=0.5)
    x[0, :20] = float("nan")
    x[1, :20] = float("inf")
    residual[2, 2] = float("nan")
    return x, residual, p, seed


def apart():
    """A launch whose output rows are apart, which the host function never makes."""
    x, residual, p, seed = arguments()
    out = spread(torch.zeros(4, 70), (100, 1))
    kept = torch.zeros(4, 70, dtype=torch.int8)

    def expected(out, kept, x, residual, *_):
        y, mask = reference(x, residual, p, seed)
        out.copy_(y)
        kept.copy_(mask)

    args = (out, kept, x, residual, p, seed, 70, 100, 70, 70)
    return Direct("dropout_add_kernel", (4, 1), args, {"BLOCK": 128}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(2, 256),
    "wide": lambda: arguments(2, 600),
    "tall": lambda: arguments(140, 1),
    "other_seed": lambda: arguments(seed=7),
    "long_seed": lambda: arguments(seed=(5 << 32) + 7),
    "nothing_dropped": lambda: arguments(p=0.0),
    "much_dropped": lambda: arguments(p=0.9),
    "gaps": lambda: (spread(arguments()[0], (90, 1)), spread(arguments()[1], (77, 1)), 0.3, 1234),
    "specials": specials,
    "large": lambda: (arguments()[0] * 1e6, *arguments()[1:]),
    "half": lambda: arguments(dtype=torch.float16),
    "apart": apart,
    "twice": lambda: Case([Host(arguments()), Host(arguments(seed=8))]),
}
