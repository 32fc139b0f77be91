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
    if n > 5000:
        warps = 4
        BLOCK = 256
        if n > 5000:
            warps = 8
    else:
        BLOCK = 256
        warps = 8
    add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512, num_warps=warps)
    return out
