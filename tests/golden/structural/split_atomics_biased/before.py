import torch
import triton
import triton.language as tl


@triton.jit
def products_kernel(a_ptr, b_ptr, c_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    batch = tl.program_id(1)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = (m[:, None] < M) & (k[None, :] < K)
        a = tl.load(a_ptr + (batch * M + m[:, None]) * K + k[None, :], mask=inside, other=0.0)
        b = tl.load(b_ptr + batch * K + k, mask=k < K, other=0.0)
        total += tl.sum(a * b[None, :], axis=1)
    total += 1.0  # once for each batch
    tl.atomic_add(c_ptr + m, total, mask=m < M)


def products(a, b):
    B, M, K = a.shape
    c = torch.zeros(M, device=a.device, dtype=torch.float32)
    products_kernel[(triton.cdiv(M, 16), B)](a, b, c, M, K, BLOCK_M=16, BLOCK_K=32)
    return c


def run():
    return products(torch.randn(3, 20, 200), torch.randn(3, 200))
