"""Group norm of an image model's activations."""

import torch
from liger_kernel.ops.group_norm import group_norm_forward


def run():
    x = torch.randn(32, 320, 4096, device="cuda")
    weight = torch.randn(320, device="cuda")
    bias = torch.randn(320, device="cuda")
    return group_norm_forward(x, 320, 32, weight, bias, 1e-6)[0]


if __name__ == "__main__":
    run()
