"""Cross entropy over the vocabulary of Llama 3, with its gradient."""

import torch
from liger_kernel.transformers.functional import liger_cross_entropy


def run():
    logits = torch.randn(4096, 128256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(0, 128256, (4096,), device="cuda")
    loss = liger_cross_entropy(logits * 1.0, target)
    loss.backward()
    return loss, logits.grad


if __name__ == "__main__":
    run()
