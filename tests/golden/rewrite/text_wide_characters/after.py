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


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    print("🚀 é 𝟙", grid := (triton.cdiv(n, 1024),)); bloc_é = 1024  # 🚀 ≥ 64
    add_kernel[grid](x, y, out, n, BLOCK=bloc_é, num_warps=8); print('🚀')
    return out
