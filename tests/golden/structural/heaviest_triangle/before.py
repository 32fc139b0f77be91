import torch
import triton
import triton.language as tl


@triton.jit
def triangle_kernel(a_ptr, x_ptr, o_ptr, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The lower triangle of each matrix times its vector: later rows take longer."""
    matrix = tl.program_id(1)
    # the block of rows
    block = tl.program_id(0)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), tl.float32)
    stop = tl.minimum((block + 1) * BLOCK_M, n)
    for start in range(0, stop, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        inside = (rows[:, None] < n) & (cols[None, :] <= rows[:, None])
        a = tl.load(a_ptr + matrix * n * n + rows[:, None] * n + cols[None, :], mask=inside, other=0.0)
        x = tl.load(x_ptr + matrix * n + cols, mask=cols < n, other=0.0)
        total += tl.sum(a * x[None, :], axis=1)
    tl.store(o_ptr + matrix * n + rows, total, mask=rows < n)


def triangle(a, x):
    matrices, n = x.shape
    out = torch.empty_like(x)
    triangle_kernel[(triton.cdiv(n, 16), matrices)](a, x, out, n, BLOCK_M=16, BLOCK_N=16)
    return out


def run():
    return triangle(torch.randn(2, 70, 70), torch.randn(2, 70))
