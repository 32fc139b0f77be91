import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, N, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
    # Rows are weighed by their largest element.
    largest = tl.max(tl.abs(x), axis=0)
    tl.store(out_ptr + row * N + cols, x * largest, mask=mask)


def scale_rows(x):
    out = torch.empty_like(x)
    N = x.shape[-1]
    block = triton.next_power_of_2(N)
    num_programs = x.numel() // N
    grid = (num_programs,)
    # The last axis is a row.
    scale_rows_kernel[grid](x, out, N, BLOCK_N=block)
    return out


def run():
    return scale_rows(torch.randn(3, 5, 100)), scale_rows(torch.randn(2, 4100))
