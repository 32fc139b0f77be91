"""RMS norm of the hidden states of a 7 B model, forward and backward."""

import torch
from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward


def run():
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn_like(x)
    y, flat, rstd, block, warps, mode = rms_norm_forward(x, weight, 1e-6, 0.0, "llama", None)
    dx, dw = rms_norm_backward(dy, flat, weight, rstd, 0.0, mode, block, warps, False, None)
    return y, dx, dw


if __name__ == "__main__":
    run()
