"""Counts how often each of a few values occurs."""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=mask)


def histogram(x, bins):
    counts = torch.zeros(bins, device=x.device, dtype=torch.int32)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
    histogram_kernel[grid](x, counts, n, BLOCK_SIZE=1024)
    return counts


if __name__ == "__main__":
    histogram(torch.randint(0, 256, (1 << 24,), device="cuda", dtype=torch.int32), 256)
