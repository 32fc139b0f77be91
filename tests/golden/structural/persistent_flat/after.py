import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of the product per program."""
    rk = tl.arange(0, BLOCK_K)
    for pid in tl.range(
        tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0), flatten=True
    ):
        pid_m = pid // tl.cdiv(N, BLOCK_N)
        pid_n = pid % tl.cdiv(N, BLOCK_N)
        rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        # over the inner dimension
        for k in range(0, K, BLOCK_K):
            kk = k + rk
            a = tl.load(a_ptr + rm[:, None] * K + kk[None, :], mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
            b = tl.load(b_ptr + kk[:, None] * N + rn[None, :], mask=(kk[:, None] < K) & (rn[None, :] < N), other=0.0)
            acc += tl.dot(a, b)
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def matmul(a, b):
    B, M, K = a.shape
    N = b.shape[1]
    c = torch.empty((B, M, N), device=a.device, dtype=a.dtype)
    NUM_SMS = torch.cuda.get_device_properties(a.device).multi_processor_count
    grid = lambda META: (min(NUM_SMS, triton.cdiv(B * M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"])),)
    matmul_kernel[grid](a, b, c, B * M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)
    return c


def run():
    class Device:
        multi_processor_count = 3

    torch.cuda.get_device_properties = lambda _: Device
    return matmul(torch.randn(2, 35, 40), torch.randn(40, 50))
