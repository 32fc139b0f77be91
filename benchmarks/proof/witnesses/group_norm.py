"""Inputs on which a wrong group normalisation shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(x, groups, weight, bias, eps=1e-5):
    samples, channels = x.shape[:2]
    grouped = x.double().reshape(samples, groups, -1)
    mean = grouped.mean(2)
    rstd = (grouped.var(2, unbiased=False) + eps).rsqrt()
    y = ((grouped - mean[..., None]) * rstd[..., None]).view(x.shape)
    y = y * weight.double().view(1, channels, 1, 1) + bias.double().view(1, channels, 1, 1)
    return y.to(x.dtype), mean.float(), rstd.float()


def arguments(samples=2, channels=6, height=5, width=7, groups=2, dtype=torch.float32, scale=1.0, shift=0.5):
    x = (randn(samples, channels, height, width) * scale + shift).to(dtype)
    return x, groups, randn(channels, dtype=dtype, seed=1), randn(channels, dtype=dtype, seed=2)


def typical():
    """The file's first call, smaller."""
    return arguments(2, 16, 8, 8, 4)


def specials():
    x, groups, weight, bias = arguments()
    x[0, 1, 2, 3] = float("nan")
    return x, groups, weight, bias


def rising():
    """Blocks whose means differ, so that merging them matters."""
    x, groups, weight, bias = arguments(1, 4, 20, 21)
    return x + torch.arange(420.0).view(1, 1, 20, 21) * 0.02, groups, weight, bias


def apart(sample, channel):
    """A launch whose samples or channels are apart, which the host function never makes."""
    x, groups, weight, bias = arguments()
    x = spread(x, (sample, channel, 7, 1))
    y = spread(torch.zeros(2, 6, 5, 7), (sample, channel, 7, 1))
    mean, rstd = torch.zeros(2, 2), torch.zeros(2, 2)

    def expected(y, mean, rstd, x, weight, bias, *_):
        for to, value in zip((y, mean, rstd), reference(x, groups, weight, bias), strict=True):
            to.copy_(value)

    args = (y, mean, rstd, x, weight, bias, 2, 3, 35, sample, channel, 1e-5)
    return Direct("group_norm_kernel", (2, 2), args, {"BLOCK": 64}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(1, 4, 8, 8),
    "one_pixel": lambda: arguments(3, 4, 1, 1, 1),
    "rising": rising,
    "offset": lambda: Case([Host(arguments(1, 4, 12, 13, shift=3000.0))], tolerance=2e-3),
    "constant": lambda: (torch.full((1, 2, 4, 4), 3.0), 2, torch.ones(2), torch.zeros(2)),
    "other_eps": lambda: (*arguments(), 0.3),
    "small": lambda: (*arguments(scale=1e-3, shift=0.0),),
    "many_samples": lambda: arguments(11, 2, 2, 2, 2),
    "channels_last": lambda: (arguments()[0].contiguous(memory_format=torch.channels_last), *arguments()[1:]),
    "specials": specials,
    "half": lambda: arguments(dtype=torch.float16),
    "channels_apart": lambda: apart(300, 50),
    "samples_apart": lambda: apart(300, 35),
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
