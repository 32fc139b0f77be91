"""Sums and counts of the valid elements of each row; whole numbers are summed exactly."""

import torch
import triton
import triton.language as tl


@triton.jit
def masked_row_sum_kernel(
    x_ptr, valid_ptr, sum_ptr, count_ptr,
    n_rows, n_cols, stride_x, stride_v,
    ACC: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    row_ok = rows < n_rows
    x_rows = x_ptr + rows[:, None].to(tl.int64) * stride_x
    v_rows = valid_ptr + rows[:, None].to(tl.int64) * stride_v
    acc = tl.zeros((BLOCK_R, BLOCK_C), dtype=ACC)
    seen = tl.zeros((BLOCK_R, BLOCK_C), dtype=tl.int32)
    for start in range(0, n_cols, BLOCK_C):
        cols = start + tl.arange(0, BLOCK_C)
        inside = row_ok[:, None] & (cols < n_cols)[None, :]
        valid = tl.load(v_rows + cols[None, :], mask=inside, other=0) != 0
        x = tl.load(x_rows + cols[None, :], mask=inside & valid, other=0)
        acc += x.to(ACC)
        seen += valid.to(tl.int32)
    tl.store(sum_ptr + rows, tl.sum(acc, axis=1), mask=row_ok)
    tl.store(count_ptr + rows, tl.sum(seen, axis=1), mask=row_ok)


def masked_row_sum(x: torch.Tensor, valid: torch.Tensor):
    n_rows, n_cols = x.shape
    whole = not x.dtype.is_floating_point
    sums = torch.empty(n_rows, device=x.device, dtype=torch.int64 if whole else torch.float32)
    counts = torch.empty(n_rows, device=x.device, dtype=torch.int32)
    if x.stride(1) != 1:
        x = x.contiguous()
    valid = valid.contiguous().view(torch.uint8)
    masked_row_sum_kernel[(triton.cdiv(n_rows, 4),)](
        x, valid, sums, counts, n_rows, n_cols, x.stride(0), valid.stride(0),
        ACC=tl.int64 if whole else tl.float32, BLOCK_R=4, BLOCK_C=128,
    )  # fmt: skip
    return sums, counts


if __name__ == "__main__":
    scores = torch.randn(4000, 2049, device="cuda")
    masked_row_sum(scores, torch.rand(4000, 2049, device="cuda") < 0.9)
    tokens = torch.randint(-50000, 50000, (512, 1024), device="cuda", dtype=torch.int32)
    masked_row_sum(tokens, tokens > 0)
