import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, o_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(o_ptr, tl.sum(x, axis=0))


def total(x):
    o = torch.empty(1, device=x.device)
    total_kernel[(1,)](x, o, BLOCK=triton.next_power_of_2(x.numel()))
    return o
