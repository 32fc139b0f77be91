import torch
import triton
import triton.language as tl


@triton.jit
def rotate_kernel(x_ptr, cos_ptr, sin_ptr, o_ptr, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    valid = i < half
    cos = tl.load(cos_ptr + i, mask=valid, other=1.0)
    sin = tl.load(sin_ptr + i, mask=valid, other=0.0)
    base = x_ptr + row * half * 2
    # Neighbours are real and imaginary part.
    pair = tl.arange(0, 2 * BLOCK)
    re, im = tl.split(tl.reshape(tl.load(base + pair, mask=pair < 2 * half, other=0.0).to(tl.float32), (BLOCK, 2)))
    out = o_ptr + row * half * 2
    tl.store(out + pair, tl.interleave(re * cos - im * sin, re * sin + im * cos), mask=pair < 2 * half)  # turned


def rotate(x, cos, sin):
    rows, width = x.shape
    out = torch.empty_like(x)
    half = width // 2
    rotate_kernel[(rows,)](x, cos, sin, out, half, BLOCK=triton.next_power_of_2(half))
    return out


def run():
    angle = torch.randn(50)
    return rotate(torch.randn(9, 100), angle.cos(), angle.sin())
