# ruff: noqa: N803, TID252 - constexprs are written in capitals; relative imports are what is tested
import torch
import triton
import triton.language as tl

from ..sizes import BLOCK


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * 2, mask=offsets < n)


def double(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK_SIZE=BLOCK)
    return out


def test_double():
    double(torch.ones(1000, device="cuda"))
