import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, out_ptr, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = (r[:, None] < rows) & (c[None, :] < cols) & (c[None, :] != 3)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
        total += x
    mean = tl.sum(total, axis=1) / cols
    squares = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = (r[:, None] < rows) & (c[None, :] < cols) & (c[None, :] != 3)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
        squares += tl.where(mask, (x - mean[:, None]) * (x - mean[:, None]), 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(squares, axis=1) / cols + eps)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = (r[:, None] < rows) & (c[None, :] < cols) & (c[None, :] != 3)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
        tl.store(out_ptr + r[:, None] * cols + c[None, :], (x - mean[:, None]) * rstd[:, None], mask=mask)


def norm(x, eps=1e-5):
    rows, cols = x.shape
    out = torch.empty_like(x)
    norm_kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, eps, ROWS=4, BLOCK=64)
    return out


def run():
    return norm(torch.randn(7, 300) + 1.0)
