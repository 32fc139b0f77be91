"""Causal attention with grouped heads, forward and backward."""

import torch
from fla.ops.attn import parallel_attn


def run():
    q = torch.randn(2, 4096, 32, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k = torch.randn(2, 4096, 8, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    v = torch.randn(2, 4096, 8, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    o = parallel_attn(q, k, v)
    o = o[0] if isinstance(o, tuple) else o
    o.backward(torch.randn_like(o))
    return o, q.grad, k.grad, v.grad


if __name__ == "__main__":
    run()
