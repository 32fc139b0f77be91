"""Inputs on which a wrong linear recurrence shows."""

import torch
from cases import Case, Direct, Host, randn, spread


def reference(a, b, initial):
    state = initial.double()
    steps = []
    for t in range(a.shape[1]):
        state = a[:, t].double() * state + b[:, t].double()
        steps.append(state)
    h = torch.stack(steps, dim=1).to(a.dtype) if steps else torch.empty_like(a)
    return h, state.float()


def arguments(batch=2, time=40, channels=20, dtype=torch.float32, scale=1.0):
    a = torch.rand(batch, time, channels, generator=torch.Generator().manual_seed(7)).mul(0.5).add(0.5).to(dtype)
    return a, (randn(batch, time, channels) * scale).to(dtype), randn(batch, channels, seed=1)


def typical():
    """The file's first call, smaller."""
    return arguments(2, 64, 32)


def specials():
    a, b, initial = arguments()
    b[0, 30, 3], b[1, 5, 5] = float("nan"), float("inf")
    return a, b, initial


def beyond_range():
    """A state that leaves the range of float32 and comes back: two steps that are composed first never do."""
    a, b, initial = arguments(1, 2, 3)
    a[:, 0], a[:, 1] = 1e10, 1e-10
    return a, torch.zeros_like(b), torch.full_like(initial, 1e30)


def growing():
    """Steps of which 32 can be composed in float32, and 64 cannot."""
    a, b, initial = arguments(1, 64, 3)
    return torch.full_like(a, 10.0), torch.zeros_like(b), torch.full_like(initial, 1e-30)


def negative_decay():
    a, b, initial = arguments()
    return -a, b, initial


def steps_apart():
    """A launch whose steps are apart, which the host function never makes."""
    a, b, initial = arguments()
    a, b, h = (spread(t, (40 * 30, 30, 1)) for t in (a, b, torch.zeros_like(a)))
    final = torch.zeros(2, 20)

    def expected(h, final, a, b, initial, *_):
        for to, value in zip((h, final), reference(a, b, initial), strict=True):
            to.copy_(value)

    args = (h, final, a, b, initial, 40, 20, 40 * 30, 30)
    return Direct("linear_recurrence_kernel", (2, 2), args, {"BLOCK_T": 32, "BLOCK_C": 16}, expected)


def unsteady():
    """Layouts other than time-major, which the host function makes dense."""
    a, b, initial = arguments()
    return a.transpose(1, 2).contiguous().transpose(1, 2), b, initial


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(1, 64, 32),
    "three_eights": lambda: arguments(1, 40, 24),
    "one_step": lambda: arguments(2, 1, 5),
    "long": lambda: arguments(1, 100, 3),
    "many": lambda: arguments(6, 5, 3),
    "wide": lambda: arguments(1, 5, 50),
    "negative_decay": negative_decay,
    "specials": specials,
    "beyond_range": beyond_range,
    "growing": growing,
    "large": lambda: arguments(scale=1e6),
    "half": lambda: arguments(dtype=torch.float16),
    "unsteady": unsteady,
    "steps_apart": steps_apart,
    "twice": lambda: Case([Host(arguments()), Host(arguments(scale=2.0))]),
}
