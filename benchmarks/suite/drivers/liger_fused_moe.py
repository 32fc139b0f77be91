"""Mixture of 16 experts, 4 for each token, forward."""

import torch
from liger_kernel.ops import LigerFusedMoEFunction


def run():
    experts, width, inner, tokens = 16, 2048, 1408, 4096
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    up = torch.randn(experts, 2 * inner, width, device="cuda", dtype=torch.bfloat16) * 0.02
    down = torch.randn(experts, width, inner, device="cuda", dtype=torch.bfloat16) * 0.02
    chosen = torch.stack([torch.randperm(experts)[:4] for _ in range(tokens)]).to("cuda", torch.int32)
    shares = torch.rand(tokens, 4, device="cuda").softmax(-1).to(torch.bfloat16)
    return LigerFusedMoEFunction.apply(x, up, down, chosen, shares)


if __name__ == "__main__":
    run()
