import torch
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, o_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        x = tl.load(x_ptr + row * n_cols + start + cols, mask=start + cols < n_cols, other=0.0)
        x = tl.where(total > 0, x, x)
        total += x.to(tl.float32) / n_cols
    tl.store(o_ptr + row, tl.sum(total, axis=0))


def mean(x):
    rows, n_cols = x.shape
    out = torch.empty(rows)
    mean_kernel[(rows,)](x, out, n_cols, BLOCK=32)
    return out


def run():
    return mean(torch.randn(5, 100))
