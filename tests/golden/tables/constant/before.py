"""A constant of the module that the one launch alone reads; three sets of values, one of them what stands there."""

import torch
import triton
import triton.language as tl

BLOCK = 512  # elements of a program


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


class Doubled:
    def __call__(self, x):
        x = x.clone()
        n = x.numel()
        grid = (triton.cdiv(n, BLOCK),)
        double_kernel[grid](
            x,
            n,
            BLOCK=BLOCK,
        )
        return x


def run():
    return tuple(Doubled()(torch.randn(n)) for n in (300, 3000, 20_000))
