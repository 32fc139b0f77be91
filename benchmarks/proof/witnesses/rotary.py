"""Inputs on which a wrong rotary embedding shows."""

import torch
from cases import Case, Direct, Host, randint, randn, spread


def reference(x, cos, sin, positions, conjugate=False):
    half = x.shape[2] // 2
    c = cos.double()[positions.long()][:, None, :]
    s = sin.double()[positions.long()][:, None, :] * (-1 if conjugate else 1)
    left, right = x.double()[..., :half], x.double()[..., half:]
    x.copy_(torch.cat([left * c - right * s, right * c + left * s], dim=2))
    return x


def table(length, half, dtype=torch.float32):
    angles = torch.arange(length)[:, None] / 100 ** (torch.arange(half) / half)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def arguments(tokens=5, heads=6, half=12, dtype=torch.float32, length=40):
    positions = randint(0, length, (tokens,), torch.int32, seed=4)
    return randn(tokens, heads, 2 * half, dtype=dtype), *table(length, half), positions


def typical():
    """The file's first call, smaller."""
    return arguments(16, 8, 32, torch.float16)


def token_gaps():
    x, cos, sin, positions = arguments()
    return spread(x, (6 * 24 + 50, 24, 1)), cos, sin, positions


def heads_first():
    """Tokens within heads, as a cache is laid out."""
    x, cos, sin, positions = arguments()
    return x.transpose(0, 1).contiguous().transpose(0, 1), cos, sin, positions


def specials():
    x, cos, sin, positions = arguments()
    x[0, 0, 0], x[1, 1, 13], x[2, 2, 2] = float("nan"), float("inf"), -0.0
    positions[1] = 3
    return x, cos, sin, positions


def rows_of_the_table_apart():
    x, cos, sin, positions = arguments()
    return x, spread(cos, (20, 1)), spread(sin, (20, 1)), positions


def separate_table_stride():
    """A launch over heads of a wider token, which the host function never makes: columns of other heads stay."""
    x, cos, sin, positions = arguments(heads=9)
    part = x[:, :5]

    def expected(x, cos, sin, positions, *_):
        reference(x, cos, sin, positions)

    args = (part, cos, sin, positions, 5, 12, x.stride(0), x.stride(1), 12)
    return Direct("rotary_kernel", (5,), args, {"CONJUGATE": False, "BLOCK_H": 4, "BLOCK_D": 16}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(3, 8, 16),
    "one_head": lambda: arguments(3, 1, 1),
    "many_heads": lambda: arguments(2, 19, 8),
    "many_tokens": lambda: arguments(140, 1, 2),
    "conjugate": lambda: (*arguments(), True),
    "token_gaps": token_gaps,
    "heads_first": heads_first,
    "specials": specials,
    "large": lambda: (arguments()[0] * 1e6, *arguments()[1:]),
    "half": lambda: arguments(dtype=torch.float16),
    "bf16": lambda: arguments(dtype=torch.bfloat16),
    "table_rows_apart": rows_of_the_table_apart,
    "part_of_the_heads": separate_table_stride,
    "twice": lambda: Case([Host(arguments()), Host((arguments()[0] * 2, *arguments()[1:]))]),
}
