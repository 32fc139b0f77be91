# kernels: 2
import torch
import triton
import triton.language as tl


def _abs(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.abs(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def _sign(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0)), mask=i < n)


abs_kernel = triton.jit(_abs, do_not_specialize=["n"])
sign_kernel = triton.heuristics({"BLOCK": lambda args: 128})(triton.jit(_sign))


def run(x):
    y = torch.empty_like(x)
    abs_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    z = torch.empty_like(x)
    sign_kernel[(triton.cdiv(x.numel(), 128),)](y, z, x.numel())
    return z


if __name__ == "__main__":
    run(torch.randn(131, device="cuda"))
