"""Gated delta rule, forward."""

import torch
import torch.nn.functional as F
from fla.ops.gated_delta_rule import chunk_gated_delta_rule


def run():
    q = torch.randn(4, 4096, 16, 128, device="cuda", dtype=torch.bfloat16)
    k = F.normalize(torch.randn(4, 4096, 16, 128, device="cuda"), dim=-1).to(torch.bfloat16)
    v = torch.randn_like(q)
    gate = F.logsigmoid(torch.randn(4, 4096, 16, device="cuda"))
    beta = torch.rand(4, 4096, 16, device="cuda", dtype=torch.bfloat16)
    return chunk_gated_delta_rule(q, k, v, gate, beta)[0]


if __name__ == "__main__":
    run()
