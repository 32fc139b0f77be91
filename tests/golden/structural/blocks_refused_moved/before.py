import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sbk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    # Rows of a, and all of k.
    a_block_ptr = tl.make_block_ptr(
        base=a_ptr, shape=(M, K), strides=(sam, 1), offsets=(pid_m * BM, 0), block_shape=(BM, BK), order=(1, 0)
    )
    b_block_ptr = tl.make_block_ptr(b_ptr, (K, N), (sbk, 1), (0, pid_n * BN), (BK, BN), (1, 0))
    a_ptr += 5
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block_ptr, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block_ptr, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_block_ptr = tl.advance(a_block_ptr, (0, BK))  # along k
        b_block_ptr = tl.advance(b_block_ptr, (BK, 0))
    c_block_ptr = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (pid_m * BM, pid_n * BN), (BM, BN), (1, 0))
    tl.store(c_block_ptr, acc.to(tl.float32), boundary_check=(0, 1))


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    matmul_kernel[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), BM=16, BN=16, BK=16)
    return c


def run():
    return matmul(torch.randn(20, 40), torch.randn(40, 35))
