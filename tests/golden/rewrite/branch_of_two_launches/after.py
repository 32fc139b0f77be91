import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def large_memory():
    return True


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    if large_memory():
        BLOCK = 128
        num_warps = 4
    elif n > 100:
        BLOCK = 64
        num_warps = 4
    else:
        BLOCK = 32
        num_warps = 2
    blocks = triton.cdiv(n, 512)
    add_kernel[(blocks,)](x, y, out, n, BLOCK=512, num_warps=num_warps)
    if num_warps == 1:
        add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=BLOCK)
    return out
