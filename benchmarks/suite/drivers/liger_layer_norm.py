"""Backward pass of layer norm of the hidden states of a model of width 4096."""

import torch
from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward


def run():
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn_like(x)
    y, flat, mean, rstd, _, _ = layer_norm_forward(x, weight, bias, 1e-5)
    return y, *layer_norm_backward(dy, flat, weight, bias, mean, rstd)


if __name__ == "__main__":
    run()
