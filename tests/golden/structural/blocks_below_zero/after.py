import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sbk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    row0 = pid_m * BM - 1
    # Rows of a, and all of k.
    a_rows = row0 + tl.arange(0, BM)
    a_cols = tl.arange(0, BK)
    b_rows = tl.arange(0, BK)
    b_cols = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(
            a_ptr + a_rows[:, None].to(tl.int64) * sam + a_cols[None, :].to(tl.int64),
            mask=(a_rows[:, None] >= 0) & (a_rows[:, None] < M) & (a_cols[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            b_ptr + b_rows[:, None].to(tl.int64) * sbk + b_cols[None, :].to(tl.int64),
            mask=(b_rows[:, None] < K) & (b_cols[None, :] < N),
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_cols += BK  # along k
        b_rows += BK
    c_rows = pid_m * BM + tl.arange(0, BM)
    c_cols = pid_n * BN + tl.arange(0, BN)
    tl.store(
        c_ptr + c_rows[:, None].to(tl.int64) * N + c_cols[None, :].to(tl.int64),
        acc.to(tl.float32),
        mask=(c_rows[:, None] < M) & (c_cols[None, :] < N),
    )


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    matmul_kernel[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), BM=16, BN=16, BK=16)
    return c


def run():
    return matmul(torch.randn(20, 40), torch.randn(40, 35))
