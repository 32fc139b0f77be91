"""Rotary position embedding of interleaved pairs."""

import torch
import triton
import triton.language as tl


@triton.jit
def rotary_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, T, H, HALF: tl.constexpr):
    row = tl.program_id(0)
    t = (row // H) % T
    i = tl.arange(0, HALF)
    even = tl.load(x_ptr + row * 2 * HALF + 2 * i).to(tl.float32)
    odd = tl.load(x_ptr + row * 2 * HALF + 2 * i + 1).to(tl.float32)
    cos = tl.load(cos_ptr + t * HALF + i)
    sin = tl.load(sin_ptr + t * HALF + i)
    tl.store(out_ptr + row * 2 * HALF + 2 * i, (even * cos - odd * sin).to(out_ptr.dtype.element_ty))
    tl.store(out_ptr + row * 2 * HALF + 2 * i + 1, (even * sin + odd * cos).to(out_ptr.dtype.element_ty))


def rotary(x, cos, sin):
    B, T, H, D = x.shape
    out = torch.empty_like(x)
    n_rows = B * T * H
    with torch.cuda.device(x.device):
        rotary_kernel[(n_rows,)](x, cos, sin, out, T, H, HALF=D // 2)
    return out


if __name__ == "__main__":
    x = torch.randn(4, 4096, 32, 128, device="cuda", dtype=torch.bfloat16)
    angles = torch.outer(torch.arange(4096, device="cuda"), 10000 ** (-torch.arange(64, device="cuda") / 64))
    rotary(x, angles.cos(), angles.sin())
