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
    pair = tl.arange(0, 2 * HALF)
    re, im = tl.split(
        tl.reshape(
            tl.load(
                x_ptr + row * half * 2 + pair[None, :], mask=in_rows & (pair[None, :] < 2 * half), other=0.0
            ).to(tl.float32),
            (ROWS, HALF, 2),
        ),
    )
    out = o_ptr + row * half * 2
    tl.store(
        out + pair,
        tl.interleave(
            (re * cos - im * sin).to(o_ptr.dtype.element_ty), (re * sin + im * cos).to(o_ptr.dtype.element_ty)
        ),
        mask=in_rows & (pair < 2 * half)[None, :],
    )


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
