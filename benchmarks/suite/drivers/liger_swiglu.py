"""Forward pass of the gated MLP of Llama (SiLU)."""

import torch
from liger_kernel.ops.swiglu import swiglu_forward


def run():
    gate = torch.randn(8192, 11008, device="cuda", dtype=torch.bfloat16)
    up = torch.randn_like(gate)
    return swiglu_forward(gate, up)[-1]


if __name__ == "__main__":
    run()
