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


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def large_memory():
    return True


def add(x, y):
    out = torch.empty_like(x)
    kept = torch.empty_like(x)
    n = out.numel()
    if large_memory():
        BLOCK = 128
        num_warps = 8
    else:
        BLOCK = 64
        num_warps = 4
    blocks = triton.cdiv(n, BLOCK)
    grid = (blocks,)
    copy_kernel[grid](x, kept, n, BLOCK=BLOCK, num_warps=num_warps)
    add_kernel[grid](
        kept,
        y,
        out,
        n,
        BLOCK=BLOCK,
        num_warps=num_warps,
    )
    return out
