"""Inputs on which a wrong top-1 gating shows."""

import torch
from cases import Case, Direct, Host, randint, randn, spread


def reference(logits):
    x = logits.double()
    best = x.amax(1, keepdim=True)
    experts = (x == best).int().argmax(1)  # the first of equals
    gates = 1 / (x - best).exp().sum(1)
    return experts.int(), gates.float(), torch.bincount(experts, minlength=logits.shape[1]).int()


def arguments(tokens=70, experts=11, dtype=torch.float32, scale=1.0):
    return ((randn(tokens, experts) * scale).to(dtype),)


def typical():
    """The file's first call, smaller."""
    return arguments(128, 16)


def hidden():
    """Experts that no token may choose."""
    (x,) = arguments()
    x[:, 2:9] = float("-inf")
    return (x,)


def counts_before():
    """A launch into counts that are not zero, which the host function never makes."""
    (x,) = arguments()
    experts, gates = torch.zeros(70, dtype=torch.int32), torch.zeros(70)
    counts = torch.arange(11, dtype=torch.int32)

    def expected(experts, gates, counts, logits, *_):
        chosen, shares, added = reference(logits)
        experts.copy_(chosen)
        gates.copy_(shares)
        counts.add_(added)

    args = (experts, gates, counts, x, 70, 11, 11)
    return Direct("top1_gating_kernel", (3,), args, {"ROWS": 32, "BLOCK": 16}, expected)


INPUTS = {
    "basic": arguments,
    "aligned": lambda: arguments(64, 16),
    "one_expert": lambda: arguments(5, 1),
    "ties": lambda: (randint(0, 3, (70, 11)).float(),),
    "all_to_one": lambda: (torch.zeros(90, 4),),
    "last_expert": lambda: (torch.arange(11.0).repeat(40, 1),),
    "many_tokens": lambda: arguments(4200, 3),
    "very_negative": lambda: (arguments()[0] - 500.0,),
    "very_positive": lambda: (arguments()[0] + 500.0,),
    "close": lambda: (2000.0 + randint(0, 50, (70, 11)).float() * 0.125,),
    "hidden": hidden,
    "gaps": lambda: (spread(arguments()[0], (29, 1)),),
    "bf16": lambda: arguments(dtype=torch.bfloat16),
    "half": lambda: arguments(dtype=torch.float16),
    "counts_before": counts_before,
    "twice": lambda: Case([Host(arguments()), Host((arguments()[0].flip(1),))]),
}
