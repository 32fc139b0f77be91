"""Inputs on which a wrong linear layer shows. Tiles are 16 rows, 64 columns, 32 deep."""

import math

import torch
from cases import randn


def reference(x, weight, bias=None, act="gelu", slope=0.01):
    y = x.double() @ weight.double().t()
    if bias is not None:
        y = y + bias.double()
    if act == "gelu":
        y = y * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))
    elif act == "leaky_relu":
        y = torch.where(y >= 0, y, slope * y)
    return y.to(x.dtype)


def typical():
    """The file's first call, smaller."""
    return randn(32, 64), randn(128, 64, seed=1) / 8, randn(128, seed=2)


def nan_in_x():
    x = randn(20, 40)
    x[3, 4] = math.nan
    return x, randn(70, 40, seed=1), None, "leaky_relu"


INPUTS = {
    "fp32": lambda: (randn(40, 80), randn(100, 80, seed=1) / 8, randn(100, seed=2)),
    "strided": lambda: (randn(40, 96)[:, ::2], randn(48, 70, seed=1).t() / 8, randn(70, seed=2)),
    "large-values": lambda: (20 * randn(20, 40), randn(70, 40, seed=1), randn(70, seed=2)),
    "other-slope": lambda: (randn(20, 40), randn(70, 40, seed=1), None, "leaky_relu", 0.3),
    "nan-in-x": nan_in_x,
    "wide": lambda: (randn(10, 40), randn(300, 40, seed=1) / 8, randn(300, seed=2)),
    "more-rows-than-depth": lambda: (randn(60, 20), randn(70, 20, seed=1), randn(70, seed=2)),
    "zero-weight": lambda: (randn(10, 20), torch.zeros(30, 20), None),
}
