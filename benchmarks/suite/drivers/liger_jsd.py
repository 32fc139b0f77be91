"""Jensen-Shannon divergence between a student and a teacher over a vocabulary of 32 K, in Triton on any GPU."""

import torch
from liger_kernel.ops.backends._triton.jsd import jsd_loss_and_grad_triton


def run():
    student = torch.randn(4096, 32000, device="cuda", dtype=torch.bfloat16).log_softmax(-1)
    teacher = torch.randn(4096, 32000, device="cuda", dtype=torch.bfloat16).log_softmax(-1)
    return jsd_loss_and_grad_triton(student, teacher, None, 0.5, -100, 4096.0)


if __name__ == "__main__":
    run()
