"""fp32 matrix product on tensor cores (tf32)."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_fp32_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * blocks_n
    first_m = (pid // in_group) * GROUP_M
    height = min(blocks_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % height
    pid_n = (pid % in_group) // height
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(tl.cdiv(K, BLOCK_K)):
        kk = start * BLOCK_K + k
        a = tl.load(a_ptr + m[:, None] * stride_am + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * stride_bk + n[None, :], mask=(kk[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul_fp32(a, b, block_m=64, block_n=64, block_k=32):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)
    matmul_fp32_kernel[grid](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
    )  # fmt: skip
    return c


if __name__ == "__main__":
    a = torch.randn(4096, 2048, device="cuda")
    b = torch.randn(2048, 4096, device="cuda")
    matmul_fp32(a, b)
