import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am: int, stride_ak: int, stride_bk: int, stride_bn: int, stride_cm: tl.int64,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a_mask = (m[:, None] < M) & (start + k[None, :] < K)
        b_mask = (start + k[None, :] < K) & (n[:, None] < N)
        a = tl.load(a_ptr + m[:, None] * stride_am + (start + k[None, :]) * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + (start + k[None, :]) * stride_bk + n[:, None] * stride_bn, mask=b_mask, other=0.0)
        acc += tl.dot(a, b.T)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0),
        BLOCK_M=32, BLOCK_N=32, BLOCK_K=32,
    )  # fmt: skip
    return c


def run():
    return matmul(torch.randn(70, 50).to(torch.float8_e5m2), torch.randn(50, 90).to(torch.float8_e5m2))
