"""A local variable, an option at the launch, and a size that is set in front of both."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    # Tiles that do well.
    # What is fastest depends on the size.
    if n <= 16384:
        BLOCK, num_warps = 256, 2
    else:
        BLOCK, num_warps = 2048, 8
    with torch.device(x.device):
        add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK, num_warps=num_warps)
    return out


def run():
    return tuple(add(torch.randn(n), torch.randn(n)) for n in (700, 3000, 70_000))
