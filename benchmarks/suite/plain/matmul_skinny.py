"""bf16 product with few rows, as in decoding a small batch; the weight is stored [out, in]."""

import torch
import triton
import triton.language as tl


@triton.jit
def skinny_kernel(x_ptr, w_ptr, y_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + kk[:, None], mask=(n[None, :] < N) & (kk[:, None] < K), other=0.0)
        acc += tl.dot(x, w)
    tl.store(
        y_ptr + m[:, None] * N + n[None, :], acc.to(y_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N)
    )


def skinny_linear(x, weight):
    M, K = x.shape
    N, K = weight.shape
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
    BLOCK_M = max(16, triton.next_power_of_2(M))
    BLOCK_N = 64
    skinny_kernel[(triton.cdiv(N, BLOCK_N),)](x, weight, y, M, N, K, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=64)
    return y


if __name__ == "__main__":
    x = torch.randn(16, 8192, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    skinny_linear(x, weight)
