"""Backward of layer normalisation: dx of each row, and dw and db over partial sums of row blocks in two stages."""

import torch
import triton
import triton.language as tl


@triton.jit
def dx_partial_kernel(
    dx_ptr,
    dw_partial_ptr,
    db_partial_ptr,
    dy_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    rstd_ptr,
    n_rows,
    n_cols,
    stride_dx,
    stride_dy,
    stride_x,
    rows_per_program,
    BLOCK: tl.constexpr,
):
    """One program walks its rows, writes their dx, and one row of partial sums of dw and db."""
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    first = program * rows_per_program
    last = tl.minimum(first + rows_per_program, n_rows)
    for row in range(first, last):
        x = tl.load(x_ptr + row * stride_x + cols, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_dy + cols, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(inside, (x - mean) * rstd, 0.0)
        wdy = w * dy
        c1 = tl.sum(x_hat * wdy, axis=0) / n_cols
        c2 = tl.sum(wdy, axis=0) / n_cols
        dx = (wdy - (x_hat * c1 + c2)) * rstd
        tl.store(dx_ptr + row * stride_dx + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        dw += dy * x_hat
        db += dy
    tl.store(dw_partial_ptr + program * n_cols + cols, dw, mask=inside)
    tl.store(db_partial_ptr + program * n_cols + cols, db, mask=inside)


@triton.jit
def sum_partials_kernel(
    dw_ptr, db_ptr, dw_partial_ptr, db_partial_ptr, n_partials, n_cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Add the partial rows of BLOCK_C columns."""
    cols = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    dw = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    db = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for start in range(0, n_partials, BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)
        at = rows[:, None] * n_cols + cols[None, :]
        mask = (rows[:, None] < n_partials) & (cols[None, :] < n_cols)
        dw += tl.load(dw_partial_ptr + at, mask=mask, other=0.0)
        db += tl.load(db_partial_ptr + at, mask=mask, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0).to(dw_ptr.dtype.element_ty), mask=cols < n_cols)
    tl.store(db_ptr + cols, tl.sum(db, axis=0).to(db_ptr.dtype.element_ty), mask=cols < n_cols)


def layer_norm_backward(dy, x, weight, mean, rstd):
    """Gradients of y = (x − mean) · rstd · weight + bias.

    Args:
        dy: (rows, cols), rows may be apart.
        x: as `dy`.
        weight: (cols,).
        mean: (rows,) float32.
        rstd: (rows,) float32.

    Returns:
        dx (rows, cols) in the type of `x`; dw and db (cols,) in the type of `weight`.
    """
    n_rows, n_cols = x.shape
    dx = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    dw = torch.empty_like(weight)
    db = torch.empty_like(weight)
    rows_per_program = 8
    n_partials = triton.cdiv(n_rows, rows_per_program)
    dw_partial = torch.empty((n_partials, n_cols), dtype=torch.float32, device=x.device)
    db_partial = torch.empty((n_partials, n_cols), dtype=torch.float32, device=x.device)
    dx_partial_kernel[(n_partials,)](
        dx,
        dw_partial,
        db_partial,
        dy,
        x,
        weight,
        mean,
        rstd,
        n_rows,
        n_cols,
        dx.stride(0),
        dy.stride(0),
        x.stride(0),
        rows_per_program,
        BLOCK=triton.next_power_of_2(n_cols),
        num_warps=4,
    )
    BLOCK_C = 64
    sum_partials_kernel[(triton.cdiv(n_cols, BLOCK_C),)](
        dw, db, dw_partial, db_partial, n_partials, n_cols, BLOCK_R=16, BLOCK_C=BLOCK_C, num_warps=4
    )
    return dx, dw, db


if __name__ == "__main__":
    for rows, cols, dtype in ((1024, 1024, torch.float32), (1000, 768, torch.float16)):
        x = torch.randn((rows, cols), device="cuda", dtype=dtype)
        mean = x.float().mean(1)
        rstd = (x.float().var(1, unbiased=False) + 1e-5).rsqrt()
        weight = torch.randn(cols, device="cuda", dtype=dtype)
        layer_norm_backward(torch.randn_like(x), x, weight, mean, rstd)
