"""Backward pass of the gated MLP of Gemma (GELU)."""

import torch
from liger_kernel.ops.geglu import geglu_backward


def run():
    gate = torch.randn(8192, 14336, device="cuda", dtype=torch.bfloat16)
    up = torch.randn_like(gate)
    grad = torch.randn_like(gate)
    return geglu_backward(gate, up, grad)


if __name__ == "__main__":
    run()
