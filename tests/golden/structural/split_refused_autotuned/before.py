import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK_K": 16}), triton.Config({"BLOCK_K": 32})], key=["K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, stride_am, stride_bk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rm[:, None] * stride_am + rk[None, :]
    b_at = b_ptr + rk[:, None] * stride_bk + rn[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        # the last tile may be cut off
        left = K - k * BLOCK_K
        a = tl.load(a_at, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
        b = tl.load(b_at, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BLOCK_K
        b_at += BLOCK_K * stride_bk
    # bias and ReLU
    bias = tl.load(bias_ptr + rn, mask=rn < N, other=0.0)
    c = tl.maximum(acc + bias[None, :], 0.0)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], c, mask=(rm[:, None] < M) & (rn[None, :] < N))


def linear(a, b, bias):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    matmul_kernel[grid](a, b, bias, c, M, N, K, a.stride(0), b.stride(0), BLOCK_M=16, BLOCK_N=16)
    return c


def run():
    return linear(torch.randn(10, 100), torch.randn(100, 20), torch.randn(20))
