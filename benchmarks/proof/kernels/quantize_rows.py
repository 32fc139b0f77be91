"""Symmetric int8 quantisation of each row: the scale is the largest magnitude over 127."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantize_rows_kernel(
    q_ptr, scale_ptr, x_ptr, n_rows, n_cols, stride_q, stride_x, floor, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    live = rows < n_rows
    x_rows = x_ptr + rows[:, None].to(tl.int64) * stride_x
    q_rows = q_ptr + rows[:, None].to(tl.int64) * stride_q
    largest = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_rows + cols, mask=live[:, None] & (cols < n_cols), other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    absmax = tl.maximum(tl.max(largest, axis=1), floor)
    scale = absmax / 127.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        mask = live[:, None] & (cols < n_cols)
        x = tl.load(x_rows + cols, mask=mask, other=0.0).to(tl.float32)
        y = x * (127.0 / absmax)[:, None]
        y = tl.where(y >= 0.0, tl.floor(y + 0.5), tl.ceil(y - 0.5))
        y = tl.minimum(tl.maximum(y, -127.0), 127.0)
        tl.store(q_rows + cols, y.to(tl.int8), mask=mask)
    tl.store(scale_ptr + rows, scale, mask=live)


def quantize_rows(x, floor=1e-8):
    """Quantise each row to int8, halves away from zero.

    Args:
        x: (rows, cols), finite; rows may be apart.
        floor: the least magnitude a row's scale is computed from.

    Returns:
        int8 (rows, cols), and float32 scales (rows,) with x ≈ q · scale.
    """
    n_rows, n_cols = x.shape
    q = torch.empty((n_rows, n_cols), dtype=torch.int8, device=x.device)
    scale = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    ROWS = 4
    quantize_rows_kernel[(triton.cdiv(n_rows, ROWS),)](
        q, scale, x, n_rows, n_cols, q.stride(0), x.stride(0), floor, ROWS=ROWS, BLOCK=256, num_warps=4
    )
    return q, scale


if __name__ == "__main__":
    quantize_rows(torch.randn((2048, 4096), device="cuda", dtype=torch.float16))
    quantize_rows(torch.randn((2048, 1000), device="cuda"))
