"""Permuting rows for experts: scatter rows to slots where they were kept, and gather them back with a weight."""

import torch
import triton
import triton.language as tl


@triton.jit
def scatter_rows_kernel(
    dst_ptr, src_ptr, slot_ptr, n_rows, n_slots, width, stride_dst, stride_src, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """dst[slot[i]] = src[i] for every row i whose slot is in [0, n_slots)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    slots = tl.load(slot_ptr + rows, mask=rows < n_rows, other=-1)
    kept = (slots >= 0) & (slots < n_slots)
    inside = kept[:, None] & (cols[None, :] < width)
    values = tl.load(src_ptr + rows[:, None] * stride_src + cols[None, :], mask=inside)
    tl.store(dst_ptr + slots[:, None] * stride_dst + cols[None, :], values, mask=inside)


@triton.jit
def gather_rows_kernel(
    out_ptr,
    src_ptr,
    slot_ptr,
    weight_ptr,
    n_rows,
    n_slots,
    width,
    stride_out,
    stride_src,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """out[i] = weight[i] * src[slot[i]], or zeros for a row without a slot."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    live = rows < n_rows
    slots = tl.load(slot_ptr + rows, mask=live, other=-1)
    weights = tl.load(weight_ptr + rows, mask=live, other=0.0).to(tl.float32)
    kept = (slots >= 0) & (slots < n_slots)
    columns = cols[None, :] < width
    values = tl.load(src_ptr + slots[:, None] * stride_src + cols[None, :], mask=kept[:, None] & columns, other=0.0).to(
        tl.float32
    )
    values = tl.where(kept[:, None], values * weights[:, None], 0.0)
    tl.store(out_ptr + rows[:, None] * stride_out + cols[None, :], values, mask=live[:, None] & columns)


def route_rows(src, slots, weights, n_slots):
    """Scatter rows of `src` to their slots, and gather them back weighted.

    Args:
        src: (n, width), rows may be apart.
        slots: (n,) int32, each other than the others or outside [0, n_slots), which drops the row.
        weights: (n,).
        n_slots: how many rows the buffer has.

    Returns:
        The buffer (n_slots, width), zero where nothing was sent, and the gathered rows (n, width).
    """
    n, width = src.shape
    buffer = torch.zeros((n_slots, width), dtype=src.dtype, device=src.device)
    out = torch.empty((n, width), dtype=src.dtype, device=src.device)
    ROWS, COLS = 16, 64
    grid = (triton.cdiv(n, ROWS), triton.cdiv(width, COLS))
    scatter_rows_kernel[grid](
        buffer, src, slots, n, n_slots, width, buffer.stride(0), src.stride(0), ROWS=ROWS, COLS=COLS, num_warps=4
    )
    gather_rows_kernel[grid](
        out, buffer, slots, weights, n, n_slots, width, out.stride(0), buffer.stride(0), ROWS=ROWS, COLS=COLS
    )
    return buffer, out


if __name__ == "__main__":
    n, width, capacity = 4096, 1024, 3072
    slots = torch.randperm(n, device="cuda").to(torch.int32)
    slots[slots % 7 == 3] = -1
    route_rows(
        torch.randn((n, width), device="cuda", dtype=torch.float16), slots, torch.rand(n, device="cuda"), capacity
    )
    route_rows(torch.randn((n, width), device="cuda"), slots, torch.rand(n, device="cuda"), capacity)
