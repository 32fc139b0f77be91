import torch
import triton
import triton.language as tl


@triton.jit
def average_kernel(x, o, n, decay):
    row = tl.program_id(0)
    level = 0.0
    for t in range(n):
        level += tl.load(x + row * n + t)
        tl.store(o + row * n + t, level)


def average(x):
    out = torch.empty_like(x)
    average_kernel[(x.shape[0],)](x, out, x.shape[1], 0.9)
    return out
