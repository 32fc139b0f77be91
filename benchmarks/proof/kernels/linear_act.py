"""y = act(x @ w.T + bias): a linear layer with its activation in the epilogue, any strides, fp32 kept exact."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gelu_tanh(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x * (1.0 - 1.0 / (tl.exp(2.0 * inner) + 1.0))


@triton.jit
def _linear_act_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr,
    M, N, K,
    sxm, sxk, swn, swk, sym, syn,
    slope,
    HAS_BIAS: tl.constexpr, ACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        x = tl.load(
            x_ptr + rm[:, None] * sxm + rk[None, :] * sxk, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0
        )
        w = tl.load(
            w_ptr + rn[None, :] * swn + rk[:, None] * swk, mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0
        )
        acc = tl.dot(x, w, acc, input_precision="ieee")
    if HAS_BIAS:
        acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    if ACT == "gelu":
        acc = _gelu_tanh(acc)
    elif ACT == "leaky_relu":
        acc = tl.where(acc >= 0, acc, slope * acc)
    y_ptrs = y_ptr + rm[:, None] * sym + rn[None, :] * syn
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


def linear_act(x, weight, bias=None, act="gelu", slope=0.01):
    M, K = x.shape
    N, _ = weight.shape
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
    BM, BN, BK = 16, 64, 32
    _linear_act_kernel[(triton.cdiv(N, BN), triton.cdiv(M, BM))](
        x, weight, bias, y, M, N, K,
        *x.stride(), *weight.stride(), *y.stride(),
        slope, HAS_BIAS=bias is not None, ACT=act, BM=BM, BN=BN, BK=BK,
    )  # fmt: skip
    return y


if __name__ == "__main__":
    x = torch.randn(512, 768, device="cuda")
    w = torch.randn(3072, 768, device="cuda") / 28
    linear_act(x, w, torch.randn(3072, device="cuda"))
    linear_act(x.half(), w.half(), act="leaky_relu")
