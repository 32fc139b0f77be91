"""Native sparse attention with 16 selected blocks of 64 keys, forward."""

import torch
from fla.ops.nsa import parallel_nsa


def run():
    torch.manual_seed(0)
    q = torch.randn(1, 8192, 64, 128, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(1, 8192, 4, 128, device="cuda", dtype=torch.bfloat16)
    v = torch.randn_like(k)
    share = torch.rand(1, 8192, 64, device="cuda", dtype=torch.bfloat16)
    own = torch.arange(8192, device="cuda").view(1, -1, 1, 1) // 64
    blocks = (own - torch.arange(16, device="cuda").view(1, 1, 1, -1)).clamp(min=0).expand(1, 8192, 4, 16)
    return parallel_nsa(q, k, v, g_slc=share, block_indices=blocks.contiguous(), block_counts=16, block_size=64)


if __name__ == "__main__":
    run()
