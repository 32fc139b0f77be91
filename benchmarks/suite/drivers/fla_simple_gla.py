"""Linear attention with one decay for each head (as in Mamba 2), forward and backward."""

import torch
import torch.nn.functional as F
from fla.ops.simple_gla import chunk_simple_gla


def run():
    q = torch.randn(4, 4096, 16, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k = torch.randn(4, 4096, 16, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    v = torch.randn(4, 4096, 16, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gate = F.logsigmoid(torch.randn(4, 4096, 16, device="cuda"))
    o, _ = chunk_simple_gla(q, k, v, gate)
    o.backward(torch.randn_like(o))
    return o, q.grad, k.grad, v.grad


if __name__ == "__main__":
    run()
