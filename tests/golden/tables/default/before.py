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
    square_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel())
    return out


def run():
    return tuple(square(torch.randn(n)) for n in (300, 5000))
