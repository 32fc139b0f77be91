"""The kernel's own default, and a launch that gives no value."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 256):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * x, mask=i < n)


def square(x):
    out = torch.empty_like(x)
    # What is fastest depends on the size.
    if x.numel() <= 1024:
        BLOCK = 64
    else:
        BLOCK = 256
    square_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def run():
    return tuple(square(torch.randn(n)) for n in (300, 5000))
