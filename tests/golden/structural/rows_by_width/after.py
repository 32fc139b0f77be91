import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, N, n_rows, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    row_mask = row < n_rows
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask & row_mask, other=0.0)
    # Rows are weighed by their largest element.
    largest = tl.max(tl.abs(x), axis=1, keep_dims=True)
    tl.store(out_ptr + row * N + cols, x * largest, mask=mask & row_mask)


class ScaleRows:
    def __call__(self, x):
        out = torch.empty_like(x)
        N = x.shape[-1]
        n_rows = x.numel() // N
        options = {"BLOCK_N": triton.next_power_of_2(N), "num_warps": 4}
        BLOCK_M = max(1, 2048 // options["BLOCK_N"])  # narrow rows share a program
        scale_rows_kernel[(triton.cdiv(n_rows, BLOCK_M),)](x, out, N, **options, n_rows=n_rows, BLOCK_M=BLOCK_M)
        return out


def run():
    scale_rows = ScaleRows()
    return scale_rows(torch.randn(3, 5, 100)), scale_rows(torch.randn(2, 4100))
