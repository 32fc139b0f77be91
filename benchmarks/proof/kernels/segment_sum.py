"""Sum, or mean, of the rows of each sequence of a packed batch, told apart by cumulative lengths."""

import torch
import triton
import triton.language as tl


@triton.jit
def segment_sum_kernel(
    out_ptr,
    x_ptr,
    offsets_ptr,
    n_cols,
    stride_out,
    stride_x,
    MEAN: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """One sequence and BLOCK_C columns a program; an empty sequence gives zeros."""
    segment = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    begin = tl.load(offsets_ptr + segment)
    end = tl.load(offsets_ptr + segment + 1)
    acc = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for start in range(begin, end, BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)
        mask = (rows[:, None] < end) & (cols[None, :] < n_cols)
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * stride_x + cols[None, :], mask=mask, other=0.0)
        acc += x.to(tl.float32)
    total = tl.sum(acc, axis=0)
    if MEAN:
        total = total / tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(out_ptr + segment * stride_out + cols, total.to(out_ptr.dtype.element_ty), mask=cols < n_cols)


def segment_sum(x, cu_seqlens, mean=False):
    """Add up the rows of each sequence.

    Args:
        x: (total, cols), rows may be apart.
        cu_seqlens: (sequences + 1,) int32 or int64, non-decreasing, from 0 to total.
        mean: divide by the lengths.

    Returns:
        (sequences, cols) in the type of `x`.
    """
    n_cols = x.shape[1]
    sequences = cu_seqlens.shape[0] - 1
    out = torch.empty((sequences, n_cols), dtype=x.dtype, device=x.device)
    BLOCK_R, BLOCK_C = 32, 64
    segment_sum_kernel[(sequences, triton.cdiv(n_cols, BLOCK_C))](
        out, x, cu_seqlens, n_cols, out.stride(0), x.stride(0), MEAN=mean, BLOCK_R=BLOCK_R, BLOCK_C=BLOCK_C, num_warps=4
    )
    return out


if __name__ == "__main__":
    lengths = torch.tensor([0, 700, 1, 130, 513, 0, 704], device="cuda")
    cu_seqlens = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)
    segment_sum(torch.randn((2048, 512), device="cuda"), cu_seqlens)
    segment_sum(torch.randn((2048, 512), device="cuda", dtype=torch.float16), cu_seqlens.long(), mean=True)
