# kernels: 2
import torch
import triton
import triton.language as tl

from triton import jit
from triton import language as L


@jit
def floor_kernel(x_ptr, y_ptr, n, BLOCK: L.constexpr):
    i = L.program_id(0) * BLOCK + L.arange(0, BLOCK)
    L.store(y_ptr + i, L.floor(L.load(x_ptr + i, mask=i < n)), mask=i < n)


@jit
def ceil_kernel(x_ptr, y_ptr, n, BLOCK: L.constexpr):
    i = L.program_id(0) * BLOCK + L.arange(0, BLOCK)
    L.store(y_ptr + i, L.ceil(L.load(x_ptr + i, mask=i < n)), mask=i < n)


def rounded(x, up):
    kernel = ceil_kernel if up else floor_kernel
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64), 1, 1)](x, y, x.numel(), BLOCK=64, num_warps=1, num_stages=1)
    return y


if __name__ == "__main__":
    for up in (True, False):
        rounded(torch.randn(100, device="cuda") * 5, up)
