# kernels: 2
import torch
import triton
import triton.language as tl

from typing import Optional


@triton.jit
def min_kernel(a_ptr, b_ptr, c_ptr, n: "int", BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.minimum(tl.load(a_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def diff_kernel(x_ptr: "torch.Tensor", y_ptr, n, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x_ptr + i, mask=i < n - 1, other=0.0)
    b = tl.load(x_ptr + i + 1, mask=i < n - 1, other=0.0)
    tl.store(y_ptr + i, b - a, mask=i < n - 1)


def minimum(a: "torch.Tensor", b: "Optional[torch.Tensor]") -> "torch.Tensor":
    c = torch.empty_like(a)
    min_kernel[(triton.cdiv(a.numel(), 128),)](a, b, c, a.numel(), BLOCK=128)
    return c


def diff(x):
    y = x.new_empty(x.numel() - 1)
    diff_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel())
    return y


if __name__ == "__main__":
    x = torch.randn(129, device="cuda")
    minimum(x, -x)
    diff(x)
