# kernels: 2
import torch
import triton
import triton.language as tl

import functools


class CachedKernel:
    """Keeps what a kernel was called with, as libraries do that look for an entry before they launch."""

    def __init__(self, fn):
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.seen = {}

    def __getitem__(self, grid):
        def launch(*args, **kwargs):
            key = tuple((a.dtype, a.shape) if isinstance(a, torch.Tensor) else a for a in args)
            self.seen[key] = self.seen.get(key, 0) + 1
            return self.fn[grid](*args, **kwargs)

        return launch


def cached():
    return CachedKernel


@cached()
@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def exp_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.exp(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@CachedKernel
@triton.jit
def log1p_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.log(1 + tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def exp(x):
    y = torch.empty_like(x)
    exp_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


def log1p(x):
    y = torch.empty_like(x)
    log1p_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


if __name__ == "__main__":
    log1p(exp(torch.randn(333, device="cuda")))
