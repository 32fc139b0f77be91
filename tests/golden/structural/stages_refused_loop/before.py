import torch
import triton
import triton.language as tl


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    for _ in range(2):
        tl.atomic_add(out_ptr, tl.sum(x * y, axis=0), sem="relaxed")  # every program adds its part


def dot(x, y):
    n = x.numel()
    out = torch.zeros(1, device=x.device, dtype=torch.float32)
    dot_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
    return out


def run():
    return dot(torch.randn(3000), torch.randn(3000))
