# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n", "seed"])
def dropout_kernel(x_ptr, y_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    tl.store(y_ptr + i, tl.where(keep, tl.load(x_ptr + i, mask=i < n) / (1 - p), 0.0), mask=i < n)


@triton.jit(do_not_specialize_on_alignment=["n"], noinline=False)
def ramp_kernel(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, i * 1.0, mask=i < n)


def dropout(x, p, seed):
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), p, seed, BLOCK=256)
    return y


def ramp(n):
    y = torch.empty(n, device="cuda")
    ramp_kernel[(triton.cdiv(n, 64),)](y, n, BLOCK=64)
    return y


if __name__ == "__main__":
    dropout(torch.randn(160, device="cuda"), 0.5, 1)
    ramp(16)
