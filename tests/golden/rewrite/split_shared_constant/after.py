import torch
import triton
import triton.language as tl

BLOCK = 64
SPLIT_K = 2


@triton.jit
def mm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(part * BLOCK_K, K, BLOCK_K * SPLIT_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def mm(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros((M, N), device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, BLOCK), SPLIT_K)
    mm_kernel[grid](a, b, c, M, N, K, BLOCK_M=32, BLOCK_N=BLOCK, BLOCK_K=64, SPLIT_K=SPLIT_K)
    return c
