import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, N, num_programs, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    row_mask = row < num_programs
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask & row_mask, other=0.0)
    # Rows are weighed by their largest element.
    largest = tl.max(tl.abs(x), axis=1, keep_dims=True)
    tl.store(out_ptr + row * N + cols, x * largest, mask=mask & row_mask)


def scale_rows(x):
    out = torch.empty_like(x)
    N = x.shape[-1]
    block = triton.next_power_of_2(N)
    num_programs = x.numel() // N
    BLOCK_M = max(1, 2048 // block)  # narrow rows share a program
    grid = (triton.cdiv(num_programs, BLOCK_M),)
    # The last axis is a row.
    scale_rows_kernel[grid](x, out, N, BLOCK_N=block, num_programs=num_programs, BLOCK_M=BLOCK_M)
    return out


def run():
    return scale_rows(torch.randn(3, 5, 100)), scale_rows(torch.randn(2, 4100))
