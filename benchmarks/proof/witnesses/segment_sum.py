"""Inputs on which a wrong sum over sequences shows."""

import itertools

import torch
from cases import Case, Direct, Host, randn, spread

LENGTHS = (5, 0, 70, 1, 33, 32)


def reference(x, cu_seqlens, mean=False):
    bounds = cu_seqlens.tolist()
    rows = []
    for begin, end in itertools.pairwise(bounds):
        total = x[begin:end].double().sum(0)
        rows.append(total / max(1, end - begin) if mean else total)
    return torch.stack(rows).to(x.dtype) if rows else x.new_zeros(0, x.shape[1])


def arguments(lengths=LENGTHS, cols=70, dtype=torch.float32, scale=1.0, shift=0.0, offsets=torch.int32):
    ends = torch.tensor(lengths).cumsum(0)
    x = (randn(int(ends[-1]), cols) * scale + shift).to(dtype)
    return x, torch.cat([ends.new_zeros(1), ends]).to(offsets)


def typical():
    """The file's first call, smaller."""
    return arguments((0, 40, 1, 9, 14), 64)


def specials():
    x, offsets = arguments()
    x[7, 3], x[80, 4], x[2, 5] = float("nan"), float("inf"), float("-inf")
    return x, offsets


def cancelling():
    """Partial sums beyond the range of half precision whose total is small."""
    x, offsets = arguments((64, 8), 20, torch.float16)
    x[:32], x[32:64] = 6000.0, -6000.0
    x[5] += 8.0
    return x, offsets


def inner_sequences():
    """A launch whose sequences start later than the first row and whose output rows are apart."""
    x, offsets = arguments()
    out = spread(torch.zeros(3, 70), (96, 1))

    def expected(out, x, offsets, *_):
        out.copy_(reference(x, offsets))

    args = (out, x, offsets[2:6].contiguous(), 70, 96, 70)
    return Direct("segment_sum_kernel", (3, 2), args, {"MEAN": False, "BLOCK_R": 32, "BLOCK_C": 64}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments((32, 64, 32), 64),
    "narrow": lambda: arguments(cols=1),
    "mean": lambda: (*arguments(shift=2.0), True),
    "long": lambda: arguments((1100, 3), 3),
    "many": lambda: arguments((2, 1) * 40, 3),
    "wide": lambda: arguments((5, 6), 200),
    "int64_offsets": lambda: arguments(offsets=torch.int64),
    "gaps": lambda: (spread(arguments()[0], (90, 1)), arguments()[1]),
    "far_apart": lambda: (spread(arguments((1, 3), 20)[0], (1 << 30, 1)), arguments((1, 3), 20)[1]),
    "specials": specials,
    "offset": lambda: Case([Host(arguments((3000, 10), 4, shift=100.0))], tolerance=1e-4),
    "half": lambda: arguments(dtype=torch.float16),
    "cancelling": cancelling,
    "inner_sequences": inner_sequences,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
