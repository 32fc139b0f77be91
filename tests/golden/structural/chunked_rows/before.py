import torch
import triton
import triton.language as tl


@triton.jit
def average_kernel(x_ptr, o_ptr, sums_ptr, T, keep, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    average = 0.0
    for t in range(T):
        x = tl.load(x_ptr + row * T + t)
        average *= keep
        average += (1.0 - keep) * x
        tl.store(o_ptr + row * T + t, average)
    i = tl.arange(0, BLOCK)
    tl.store(sums_ptr + row * BLOCK + i, average + i)


def average(x, keep=0.9):
    B, T = x.shape
    o = torch.empty_like(x)
    sums = torch.empty((B, 16), device=x.device, dtype=torch.float32)
    average_kernel[(B,)](x, o, sums, T, keep, BLOCK=16)
    return o, sums


def run():
    return average(torch.randn(3, 75))
