"""Inputs on which a wrong causal convolution shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, weight, bias, state, silu=True):
    taps = weight.shape[1]
    padded = torch.cat([state.double(), x.double()], dim=2)
    windows = padded.unfold(2, taps, 1) if x.shape[2] else padded.new_zeros(*x.shape, taps)
    y = (windows * weight.double()[None, :, None, :]).sum(3) + bias.double()[None, :, None]
    return (y * torch.sigmoid(y) if silu else y).to(x.dtype)


def arguments(batch=2, channels=3, time=150, taps=4, dtype=torch.float32, scale=1.0):
    x = (randn(batch, channels, time) * scale).to(dtype)
    weight, bias = randn(channels, taps, dtype=dtype, seed=1), randn(channels, dtype=dtype, seed=2)
    return x, weight, bias, (randn(batch, channels, taps - 1, seed=3) * scale).to(dtype)


def typical():
    """The file's first call, smaller."""
    return arguments(2, 8, 128)


def channel_last():
    x, *rest = arguments()
    return x.transpose(1, 2).contiguous().transpose(1, 2), *rest


def steps_apart():
    x, *rest = arguments()
    return spread(x, (1300, 401, 2)), *rest


def specials():
    x, weight, bias, state = arguments()
    x[0, 0, 100], x[1, 1, 20], state[1, 2, 1] = float("nan"), float("inf"), float("nan")
    return x, weight, bias, state


def output_apart():
    """A launch whose output channels are apart, which the host function never makes."""
    x, weight, bias, state = arguments()
    y = spread(torch.zeros(2, 3, 150), (600, 180, 1))

    def expected(y, x, weight, bias, state, *_):
        y.copy_(reference(x, weight, bias, state))

    args = (y, x, weight, bias, state, 3, 150, *x.stride(), 600, 180)
    return Direct("causal_conv1d_kernel", (2, 3, 2), args, {"TAPS": 4, "SILU": True, "BLOCK": 128}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(1, 2, 128),
    "short": lambda: arguments(2, 3, 2),
    "long": lambda: arguments(1, 1, 1200),
    "two_taps": lambda: arguments(taps=2),
    "many_channels": lambda: arguments(1, 40, 3),
    "linear": lambda: (*arguments(), False),
    "channel_last": channel_last,
    "steps_apart": steps_apart,
    "specials": specials,
    "large": lambda: arguments(scale=1e6),
    "half": lambda: arguments(dtype=torch.float16),
    "output_apart": output_apart,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
