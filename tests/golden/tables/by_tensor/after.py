"""No argument tells the launches apart: the number of rows is in the grid and in the tensor alone."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, s_ptr, out_ptr, rows, n, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (i[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * stride + i[None, :], mask=mask)
    s = tl.load(s_ptr + r, mask=r < rows)
    tl.store(out_ptr + r[:, None] * stride + i[None, :], x * s[:, None], mask=mask)


def scale(x, s):
    # What is fastest depends on the size.
    if x.shape[0] <= 16:
        ROWS, num_warps = 1, 1
    else:
        ROWS, num_warps = 8, 4
    out = torch.empty_like(x)
    rows, n = x.shape
    grid = (triton.cdiv(rows, ROWS),)
    scale_kernel[grid](x, s, out, rows, n, x.stride(0), ROWS=ROWS, BLOCK=triton.next_power_of_2(n), num_warps=num_warps)
    return out


def run():
    return tuple(scale(torch.randn(m, 20), torch.randn(m)) for m in (3, 90))
