# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def axpy_kernel(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(y_ptr + i, a * tl.load(x_ptr + i, mask=i < n) + y, mask=i < n)


@triton.jit
def reverse_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + n - 1 - i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def axpy(a, x, y):
    axpy_kernel.run(x, y, a, x.numel(), grid=(triton.cdiv(x.numel(), 64),), warmup=False, BLOCK=64)


def reverse(x):
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    reverse_kernel.run(x, y, x.numel(), BLOCK=128, grid=grid, warmup=False, num_warps=1)
    return y


if __name__ == "__main__":
    x = torch.randn(300, device="cuda")
    axpy(3.0, x, torch.zeros_like(x))
    reverse(x)
