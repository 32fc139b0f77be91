import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, PROGRAMS: tl.constexpr, B: tl.constexpr):
    tiles_n = tl.cdiv(N, B)
    lanes = tl.arange(0, B)
    for tile in range(tl.program_id(0), tl.cdiv(M, B) * tiles_n, PROGRAMS):
        m = tile // tiles_n * B + lanes
        n = tile % tiles_n * B + lanes
        acc = tl.zeros((B, B), dtype=tl.float32)
        for start in range(0, K, B):
            k = start + lanes
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N)
    matmul_kernel[(4,)](a, b, c, M, N, K, PROGRAMS=4, B=16)
    return c


def run():
    return matmul(torch.randn(20, 40).half(), torch.randn(40, 35).half())
