import torch
import triton
import triton.language as tl


@triton.jit
def columns_kernel(x_ptr, sum_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=inside, other=0.0)
    tl.store(sum_ptr + tl.program_id(1) * cols + n, tl.sum(x.to(tl.float32), axis=0), mask=n < cols)


def columns(x):
    rows, cols = x.shape
    partial_sums = torch.empty((triton.cdiv(rows, 64), cols), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(cols, 32), triton.cdiv(rows, 64))
    columns_kernel[grid](x, partial_sums, rows, cols, BLOCK_M=64, BLOCK_N=32)
    sums = partial_sums.sum(dim=0, dtype=partial_sums.dtype)
    return sums.to(x.dtype)


def run():
    return columns(torch.randn(300, 70))
