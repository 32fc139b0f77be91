import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, total_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    part = tl.sum(x * x, axis=0)
    # one program at a time
    # next, please
    tl.atomic_add(total_ptr, part)


def total(x, start):
    out = start.clone()
    lock = torch.zeros(1, dtype=torch.int32, device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 64),)](x, out, lock, x.numel(), BLOCK=64)
    return out


def run():
    return total(torch.randn(500), torch.ones(1))
