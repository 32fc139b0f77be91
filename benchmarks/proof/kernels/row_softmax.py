"""Softmax over the last axis, a row at a time in one block; a fixed number of programs walk over the rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_row_stride, out_row_stride, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    cols = tl.arange(0, BLOCK_SIZE)
    for row_idx in tl.range(row_start, n_rows, row_step):
        in_row = in_ptr + tl.cast(row_idx, tl.int64) * in_row_stride
        row = tl.load(in_row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        shifted = row - tl.max(row, axis=0)
        numerator = tl.exp(shifted)
        denominator = tl.sum(numerator, axis=0)
        out_row = out_ptr + tl.cast(row_idx, tl.int64) * out_row_stride
        tl.store(out_row + cols, numerator / denominator, mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    if x.stride(1) != 1:
        x = x.contiguous()
    out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)
    block = triton.next_power_of_2(n_cols)
    warps = 8 if block >= 4096 else 4
    programs = min(n_rows, 128)
    softmax_kernel[(programs,)](
        out, x, x.stride(0), out.stride(0), n_rows, n_cols, BLOCK_SIZE=block, num_warps=warps
    )
    return out


if __name__ == "__main__":
    softmax(torch.randn(1823, 781, device="cuda"))
    softmax(torch.randn(512, 4096, device="cuda", dtype=torch.float16))
    padded = torch.randn(300, 1024, device="cuda")
    softmax(padded[:, :1000])
