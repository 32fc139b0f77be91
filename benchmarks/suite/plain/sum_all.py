"""Sums a whole tensor: each program adds its part to the result."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_all_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


def sum_all(x):
    out = torch.zeros((), device=x.device, dtype=torch.float32)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)
    sum_all_kernel[grid](x, out, n, BLOCK_SIZE=1024)
    return out


if __name__ == "__main__":
    sum_all(torch.rand(1 << 27, device="cuda"))
