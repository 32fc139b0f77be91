"""Inputs on which a wrong vector addition shows."""

import torch
from cases import Case, Host, randn


def reference(x, y):
    return (x.double() + y.double()).to(x.dtype)


def typical():
    """The file's first call, smaller."""
    return randn(4096), randn(4096, seed=1)


INPUTS = {
    "tail": lambda: (randn(1500), randn(1500, seed=1)),
    "large": lambda: (randn(200_000), randn(200_000, seed=1)),
    "transposed": lambda: (randn(40, 50), randn(50, 40, seed=1).t()),
    "half": lambda: (randn(3, 700, dtype=torch.float16), randn(3, 700, dtype=torch.float16, seed=1)),
    "specials": lambda: (torch.tensor([float("nan"), float("inf"), -0.0, 1.0]), torch.tensor([1.0, 1.0, 2.0, 3.0])),
    "twice": lambda: Case([Host((randn(100), randn(100, seed=1))), Host((randn(100, seed=2), randn(100, seed=3)))]),
}
