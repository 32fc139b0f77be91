"""An int8 product whose kernel counts on how both matrices lie, with the weight of a module."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    x_ptr, w_ptr, y_ptr, M, N, K,
    stride_wk,
    stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        w = tl.load(
            w_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn, mask=(k[:, None] < K) & (n[None, :] < N), other=0
        )
        acc += tl.dot(x, w)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class Linear:
    """Products with one weight, (in, out)."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        (M, K), N = x.shape, self.weight.shape[1]
        y = torch.empty((M, N), dtype=torch.int32, device=x.device)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        # The contraction contiguous, as the tensor cores read it.
        weight = self.weight.t().contiguous().t()
        product_kernel[grid](
            x,
            weight,
            y,
            M,
            N,
            K,
            BLOCK_M=32,
            BLOCK_N=32,
            BLOCK_K=32,
            stride_wk=weight.stride(0),
            stride_wn=weight.stride(1),
        )
        return y


def run():
    x, weight = torch.randint(-100, 100, (70, 50)), torch.randint(-100, 100, (50, 90))
    return Linear(weight.to(torch.int8))(x.to(torch.int8))
