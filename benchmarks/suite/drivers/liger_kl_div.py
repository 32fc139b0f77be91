"""KL divergence between a student and a teacher over a vocabulary of 32 K."""

import torch
from liger_kernel.transformers.functional import liger_kl_div


def run():
    student = torch.randn(4096, 32000, device="cuda", dtype=torch.bfloat16).log_softmax(-1)
    teacher = torch.randn(4096, 32000, device="cuda", dtype=torch.bfloat16).softmax(-1)
    return liger_kl_div(student, teacher, reduction="batchmean")


if __name__ == "__main__":
    run()
