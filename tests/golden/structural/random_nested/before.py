"""Dropout with one seed, an argument, and numbers that say which others are drawn."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, out_ptr, seed, n, p, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offsets, mask=offsets < n, other=0.0)
    flipped = (tl.rand(seed, row * n + offsets) > 0.5).to(tl.int32)
    keep = tl.rand(seed, (tl.rand(seed, offsets) > 0.5).to(tl.int32) + 2 * offsets + flipped) > p
    tl.store(out_ptr + row * n + offsets, tl.where(keep, x / (1 - p), 0.0), mask=offsets < n)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    dropout_kernel[(x.shape[0],)](x, out, seed, x.shape[1], p, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def run():
    return dropout(torch.randn(3, 200), 0.5, 1)
