import torch
import triton
import triton.language as tl


@triton.jit
def magnitude_kernel(z_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    im = tl.load(z_ptr + (at + n), mask=at < n)
    re = tl.load(z_ptr + at, mask=at < n)
    tl.store(o_ptr + at, tl.sqrt(re * re + im * im), mask=at < n)


def magnitude(z):
    n = z.numel() // 2
    out = torch.empty(n, device=z.device)
    magnitude_kernel[(triton.cdiv(n, 128),)](z, out, n, BLOCK=128)
    return out


def run():
    return magnitude(torch.randn(1000))
