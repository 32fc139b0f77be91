"""Sums and largest magnitudes of columns: row splits work in parallel and meet in atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def column_sum_kernel(
    x_ptr, sum_ptr, peak_ptr, M, N, stride_m, stride_n, rows_per_split,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(1) * rows_per_split
    last = tl.minimum(first + rows_per_split, M)
    total = tl.zeros((BLOCK_N,), tl.float32)
    peak = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(first, last, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < last)[:, None] & (cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * stride_m + cols[None, :] * stride_n, mask=mask, other=0.0)
        x = x.to(tl.float32)
        total += tl.sum(x, axis=0)
        peak = tl.maximum(peak, tl.max(tl.abs(x), axis=0))
    tl.atomic_add(sum_ptr + cols, total, mask=cols < N, sem="relaxed")
    tl.atomic_max(peak_ptr + cols, peak, mask=cols < N)


def column_sum(x: torch.Tensor, splits: int = 8):
    M, N = x.shape
    sums = torch.zeros(N, device=x.device, dtype=torch.float32)
    peaks = torch.zeros(N, device=x.device, dtype=torch.float32)
    rows_per_split = triton.cdiv(M, splits)
    grid = (triton.cdiv(N, 64), splits)
    column_sum_kernel[grid](
        x, sums, peaks, M, N, x.stride(0), x.stride(1), rows_per_split, BLOCK_M=32, BLOCK_N=64, num_warps=4
    )
    return sums, peaks


if __name__ == "__main__":
    gradients = torch.randn(8192, 1024, device="cuda", dtype=torch.bfloat16)
    column_sum(gradients)
    column_sum(torch.randn(3000, 500, device="cuda").t(), splits=4)
