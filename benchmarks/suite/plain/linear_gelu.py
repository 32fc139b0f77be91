"""Linear layer with bias and GELU in one kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))


@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def linear_gelu_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        if EVEN_K:
            x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=m[:, None] < M, other=0.0)
            w = tl.load(w_ptr + n[None, :] * K + kk[:, None], mask=n[None, :] < N, other=0.0)
        else:
            x = tl.load(x_ptr + m[:, None] * K + kk[None, :], mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
            w = tl.load(w_ptr + n[None, :] * K + kk[:, None], mask=(n[None, :] < N) & (kk[:, None] < K), other=0.0)
        acc += tl.dot(x, w)
    bias = tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = gelu(acc + bias[None, :])
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


def linear_gelu(x, weight, bias):
    M, K = x.shape
    N = weight.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
    grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]), triton.cdiv(N, META["BLOCK_N"]))
    linear_gelu_kernel[grid](x, weight, bias, y, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return y


if __name__ == "__main__":
    x = torch.randn(8192, 1280, device="cuda", dtype=torch.float16)
    weight = torch.randn(5120, 1280, device="cuda", dtype=torch.float16)
    bias = torch.randn(5120, device="cuda", dtype=torch.float16)
    linear_gelu(x, weight, bias)
