"""int8 matrix product with a scale per row and per column, as in W8A8 inference."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_int8_kernel(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        a = tl.load(a_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0)
        b = tl.load(b_ptr + kk[:, None] * N + n[None, :], mask=(kk[:, None] < K) & (n[None, :] < N), other=0)
        acc += tl.dot(a, b)
    a_scale = tl.load(a_scale_ptr + m, mask=m < M, other=0.0)
    b_scale = tl.load(b_scale_ptr + n, mask=n < N, other=0.0)
    c = acc.to(tl.float32) * a_scale[:, None] * b_scale[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c.to(tl.float16), mask=mask)


class Int8Linear:
    BLOCK_M = 64
    BLOCK_N = 64

    def __init__(self, weight, weight_scale):
        self.weight = weight
        self.weight_scale = weight_scale

    def __call__(self, x, x_scale):
        M, K = x.shape
        N = self.weight.shape[1]
        out = torch.empty((M, N), device=x.device, dtype=torch.float16)
        grid = (triton.cdiv(M, self.BLOCK_M), triton.cdiv(N, self.BLOCK_N))
        matmul_int8_kernel[grid](
            x, self.weight, out, x_scale, self.weight_scale, M, N, K,
            BLOCK_M=self.BLOCK_M, BLOCK_N=self.BLOCK_N, BLOCK_K=64,
        )  # fmt: skip
        return out


def matmul_int8(x, x_scale, weight, weight_scale):
    return Int8Linear(weight, weight_scale)(x, x_scale)


if __name__ == "__main__":
    x = torch.randint(-127, 128, (4096, 4096), device="cuda", dtype=torch.int8)
    weight = torch.randint(-127, 128, (4096, 4096), device="cuda", dtype=torch.int8)
    x_scale = torch.rand(4096, device="cuda") * 0.01
    weight_scale = torch.rand(4096, device="cuda") * 0.01
    matmul_int8(x, x_scale, weight, weight_scale)
