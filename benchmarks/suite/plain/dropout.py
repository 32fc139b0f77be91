"""Dropout whose mask follows from a seed, so that it need not be kept."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    n = x.numel()
    BLOCK = 1024
    n_blocks = triton.cdiv(n, BLOCK)
    dropout_kernel[(n_blocks,)](x, out, n, p, seed, BLOCK=BLOCK)
    return out


if __name__ == "__main__":
    dropout(torch.randn(8192, 8192, device="cuda"), 0.1, 1234)
