# ruff: noqa: N803 - constexprs are written in capitals
"""A host function with a default block size, called with the default, another one, and another keyword."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x, o, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, scale * tl.load(x + i, mask=i < n), mask=i < n)


def scaled(x, block=128, *, scale=2.0):
    o = torch.empty_like(x)
    scaled_kernel[(triton.cdiv(x.numel(), block),)](x, o, x.numel(), scale, BLOCK=block)
    return o


if __name__ == "__main__":
    data = torch.randn(1000, device="cuda")
    scaled(data)
    scaled(data, 64)
    scaled(data, scale=3.0)
