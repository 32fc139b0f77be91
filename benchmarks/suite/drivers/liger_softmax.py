"""Softmax of attention scores and its gradient."""

import torch
from liger_kernel.transformers.functional import liger_softmax


def run():
    x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    y = liger_softmax(x)
    y.backward(torch.randn_like(y))
    return y, x.grad


if __name__ == "__main__":
    run()
