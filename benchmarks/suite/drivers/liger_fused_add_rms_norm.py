"""Residual addition and RMS norm in one kernel, at the width of a 7 B model."""

import torch
from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward


def run():
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    residual = torch.randn_like(x)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    y, s, *_ = fused_add_rms_norm_forward(x, residual, weight, 1e-6, 0.0, "llama")
    return y, s


if __name__ == "__main__":
    run()
