"""Inputs on which a wrong embedding lookup shows."""

import torch
from cases import Case, Direct, Host, randint, randn, spread


def reference(tokens, table, positions, padding_idx=0, scale=1.0):
    rows = table.double()[tokens.long()] * scale + positions.double()[: tokens.shape[1]]
    return torch.where((tokens == padding_idx)[..., None], 0.0, rows).to(table.dtype)


def arguments(batch=2, sequence=7, width=40, vocabulary=50, dtype=torch.float32):
    tokens = randint(0, vocabulary, (batch, sequence))
    tokens[0, 1] = 0
    return tokens, randn(vocabulary, width, dtype=dtype, seed=1), randn(sequence + 3, width, dtype=dtype, seed=2)


def typical():
    """The file's first call, smaller."""
    return arguments(4, 32, 96, 200, torch.float16)


def padding_at(index):
    tokens, table, positions = arguments()
    tokens[1, 2] = index
    return tokens, table, positions, index


def last_row():
    tokens, table, positions = arguments(width=40)
    tokens[:] = 49
    return tokens, table, positions


def far_apart():
    """Rows of the table one GiB of elements apart: the third does not start within the int32 range."""
    tokens, table, positions = arguments(vocabulary=4)
    return tokens % 3 + 1, spread(table, (1 << 30, 1)), positions


def nan_in_padding():
    """The row of the padding token is never read, so that its NaN stays where it is."""
    tokens, table, positions = arguments()
    table[0] = float("nan")
    positions[3, 5] = float("nan")
    table[tokens[1, 0], 3] = float("inf")
    return tokens, table, positions


def with_gaps():
    tokens, table, positions = arguments()
    return tokens, spread(table, (53, 1)), spread(positions, (45, 1))


def output_apart():
    """A launch whose output rows are apart, which the host function never makes."""
    tokens, table, positions = arguments()
    out = spread(torch.zeros(14, 40), (64, 1))

    def expected(out, tokens, table, positions, *_):
        out.copy_(reference(tokens, table, positions).view(14, 40))

    args = (out, tokens, table, positions, 0, 7, 40, 1.0, 64, 40, 40)
    return Direct("embedding_kernel", (14, 2), args, {"BLOCK": 32}, expected)


INPUTS = {
    "basic": arguments,
    "wide": lambda: arguments(width=2500),
    "aligned": lambda: arguments(width=64),
    "many": lambda: arguments(batch=5, sequence=30, width=16),
    "last_row": last_row,
    "other_padding": lambda: padding_at(7),
    "no_padding": lambda: (*arguments(), -1),
    "scaled": lambda: (*arguments(), 0, 3.7),
    "far_apart": far_apart,
    "gaps": with_gaps,
    "transposed_tokens": lambda: (randint(0, 50, (7, 3)).t(), *arguments()[1:]),
    "int32_tokens": lambda: (arguments()[0].int(), *arguments()[1:]),
    "half": lambda: (*arguments(dtype=torch.float16), 0, 27.7),
    "large": lambda: (arguments()[0], arguments()[1] * 1e30, arguments()[2], 0, 2.0),
    "specials": nan_in_padding,
    "output_apart": output_apart,
    "twice": lambda: Case([Host(arguments()), Host((arguments()[0].flip(1), *arguments()[1:]))]),
}
