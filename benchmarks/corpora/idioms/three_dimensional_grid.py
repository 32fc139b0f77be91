# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    b, pm, pn = tl.program_id(2), tl.program_id(1), tl.program_id(0)
    i, j = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)
    mask = (i[:, None] < M) & (j[None, :] < N)
    tile = tl.load(x_ptr + b * M * N + i[:, None] * N + j[None, :], mask=mask)
    tl.store(y_ptr + b * M * N + j[:, None] * M + i[None, :], tl.trans(tile), mask=(j[:, None] < N) & (i[None, :] < M))


@triton.jit
def fill_kernel(y_ptr, sx, sy, sz, BLOCK: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    j = tl.arange(0, BLOCK)
    tl.store(y_ptr + x * sx + y * sy + z * sz + j, x + 10 * y + 100 * z + j)


def transpose(x):
    B, M, N = x.shape
    y = x.new_empty(B, N, M)
    transpose_kernel[(triton.cdiv(N, 16), triton.cdiv(M, 32), B)](x, y, M, N, BM=32, BN=16)
    return y


def fill(a, b, c):
    y = torch.empty(a, b, c, 16, dtype=torch.int32, device="cuda")
    fill_kernel[(a, b, c)](y, y.stride(0), y.stride(1), y.stride(2), BLOCK=16)
    return y


if __name__ == "__main__":
    transpose(torch.randn(3, 50, 30, device="cuda"))
    fill(2, 3, 2)
