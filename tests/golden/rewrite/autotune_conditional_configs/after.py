import torch
import triton
import triton.language as tl

from devices import IS_HOPPER, IS_INTEL, has_room

WARPS = [2, 4] if IS_HOPPER else [2, 4, 8]
if IS_INTEL:
    BLOCKS = [64]
else:
    BLOCKS = [64, 128]


@triton.autotune(
    configs=[triton.Config({'BLOCK': 1024}, num_warps=8, num_stages=3)] + [
        triton.Config({'BLOCK': BLOCK}, num_warps=num_warps, num_stages=num_stages)
        for BLOCK in BLOCKS
        for num_warps in WARPS
        for num_stages in ([2, 3] if has_room() else [1])
    ],
    key=['n'],
)
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    add_kernel[grid](x, y, out, n)
    return out
