import torch
import triton
import triton.language as tl


@triton.jit
def rotate_rows_kernel(x_ptr, cos_ptr, sin_ptr, o_ptr, rows, half, ROWS: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    in_rows = row < rows
    i = tl.arange(0, HALF)
    valid = i[None, :] < half
    cos = tl.load(cos_ptr + i, mask=i < half, other=1.0)
    sin = tl.load(sin_ptr + i, mask=i < half, other=0.0)
    # Neighbours are real and imaginary part.
    re = tl.load(x_ptr + row * half * 2 + 2 * i[None, :], mask=in_rows & valid, other=0.0).to(tl.float32)
    im = tl.load(x_ptr + row * half * 2 + 2 * i[None, :] + 1, mask=in_rows & valid, other=0.0).to(tl.float32)
    out = o_ptr + row * half * 2
    tl.store(out + 2 * i, (re * cos - im * sin).to(o_ptr.dtype.element_ty), mask=in_rows & (i < half)[None, :])
    tl.store(out + 2 * i + 1, (re * sin + im * cos).to(o_ptr.dtype.element_ty), mask=in_rows & (i < half)[None, :])


def rotate_rows(x, cos, sin):
    rows, width = x.shape
    out = torch.empty_like(x)
    half = width // 2
    grid = (triton.cdiv(rows, 4),)
    rotate_rows_kernel[grid](x, cos, sin, out, rows, half, ROWS=4, HALF=triton.next_power_of_2(half))
    return out


def run():
    angle = torch.randn(50)
    return rotate_rows(torch.randn(9, 100), angle.cos(), angle.sin())
