# kernels: 3
import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + tl.program_id(0) * N + j, mask=j < N, other=0.0), 0))


@triton.jit
def max_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + j, mask=j < N, other=-float("inf"))
    tl.store(y_ptr + tl.program_id(0), tl.max(x, 0))


@triton.jit
def argmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + j, mask=j < N, other=-float("inf"))
    tl.store(y_ptr + tl.program_id(0), tl.argmax(x, 0))


REDUCTIONS = {"sum": sum_kernel, "max": max_kernel, "argmax": argmax_kernel}


def reduce(x, how):
    y = torch.empty(x.shape[0], device=x.device, dtype=torch.int64 if how == "argmax" else x.dtype)
    REDUCTIONS[how][(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


if __name__ == "__main__":
    x = torch.randn(12, 90, device="cuda")
    for how in REDUCTIONS:
        reduce(x, how)
