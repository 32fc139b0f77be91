"""fp8 (e4m3) matrix product with one scale per operand; the weight is stored [out, in]."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_fp8_kernel(
    x_ptr, w_ptr, y_ptr, x_scale_ptr, w_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + kk[:, None], mask=(n[None, :] < N) & (kk[:, None] < K), other=0.0)
        acc += tl.dot(x, w)
    y = acc * tl.load(x_scale_ptr) * tl.load(w_scale_ptr)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(tl.bfloat16), mask=mask)


def matmul_fp8(x, weight, x_scale, w_scale):
    M, K = x.shape
    N = weight.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=torch.bfloat16)
    meta = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
    grid = (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    matmul_fp8_kernel[grid](x, weight, y, x_scale, w_scale, M, N, K, **meta)
    return y


if __name__ == "__main__":
    x = torch.randn(4096, 8192, device="cuda").to(torch.float8_e4m3fn)
    weight = torch.randn(4096, 8192, device="cuda").to(torch.float8_e4m3fn)
    x_scale = torch.full((1,), 0.5, device="cuda")
    w_scale = torch.full((1,), 0.25, device="cuda")
    matmul_fp8(x, weight, x_scale, w_scale)
