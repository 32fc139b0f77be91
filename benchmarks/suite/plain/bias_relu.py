"""Adds a bias to every row and applies ReLU."""

import torch
import triton
import triton.language as tl

BLOCK_ROWS = 1
BLOCK_COLS = 256


@triton.jit
def bias_relu_kernel(
    x_ptr, bias_ptr, out_ptr, rows, cols, stride_x, stride_out, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr
):
    r = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    c = tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * stride_x + c[None, :], mask=mask, other=0.0)
    bias = tl.load(bias_ptr + c, mask=c < cols, other=0.0)
    y = x + bias[None, :]
    y = tl.where(y > 0, y, 0.0)
    tl.store(out_ptr + r[:, None] * stride_out + c[None, :], y, mask=mask)


def bias_relu(x, bias):
    rows, cols = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(rows, BLOCK_ROWS), triton.cdiv(cols, BLOCK_COLS))
    with torch.cuda.device(x.device):
        bias_relu_kernel[grid](
            x, bias, out, rows, cols, x.stride(0), out.stride(0), BLOCK_ROWS=BLOCK_ROWS, BLOCK_COLS=BLOCK_COLS
        )
    return out


if __name__ == "__main__":
    x = torch.randn(16384, 4096, device="cuda")
    bias = torch.randn(4096, device="cuda")
    bias_relu(x, bias)
