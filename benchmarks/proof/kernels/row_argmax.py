"""Largest element of each row and where it is: the first of equals, and NaN is larger than everything (as in PyTorch)."""

import torch
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x_ptr, value_ptr, index_ptr, n_cols, stride_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_row
    best = float("-inf")
    best_index = 0
    first_nan = n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < n_cols
        x = tl.load(x_row + cols, mask=inside, other=float("-inf")).to(tl.float32)
        is_nan = x != x
        first_nan = tl.minimum(first_nan, tl.min(tl.where(is_nan & inside, cols, n_cols), axis=0))
        x = tl.where(is_nan, float("-inf"), x)
        top = tl.max(x, axis=0)
        where = tl.min(tl.where((x == top) & inside, cols, n_cols), axis=0)
        better = top > best
        best_index = tl.where(better, where, best_index)
        best = tl.where(better, top, best)
    has_nan = first_nan < n_cols
    tl.store(value_ptr + row, tl.where(has_nan, float("nan"), best))
    tl.store(index_ptr + row, tl.where(has_nan, first_nan, best_index))


def row_max(x: torch.Tensor, block: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    if x.stride(-1) != 1:
        x = x.contiguous()
    n_rows, n_cols = x.shape
    values = torch.empty(n_rows, device=x.device, dtype=x.dtype)
    indices = torch.empty(n_rows, device=x.device, dtype=torch.int64)
    argmax_kernel[(n_rows,)](x, values, indices, n_cols, x.stride(0), BLOCK=block)
    return values, indices


def main():
    logits = torch.randn(1024, 32064, device="cuda", dtype=torch.float16)
    row_max(logits)
    row_max(torch.randn(4096, 257, device="cuda"), block=256)


if __name__ == "__main__":
    main()
