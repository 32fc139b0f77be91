"""Rotary embedding of queries and keys of Llama 3 8 B."""

import torch
from liger_kernel.transformers.functional import liger_rope


def run():
    cos = torch.randn(1, 4096, 128, device="cuda", dtype=torch.bfloat16)
    sin = torch.randn(1, 4096, 128, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(2, 32, 4096, 128, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(2, 8, 4096, 128, device="cuda", dtype=torch.bfloat16)
    return liger_rope(q, k, cos, sin)


if __name__ == "__main__":
    run()
