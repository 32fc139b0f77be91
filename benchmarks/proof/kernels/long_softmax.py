"""Softmax over rows that are too long for one block: a running maximum and sum first, the results in a second pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def long_softmax_kernel(X, Y, stride_x, stride_y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * stride_x
    Y += row * stride_y
    m = float("-inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        # A block that holds nothing but -inf must not make NaN of -inf - -inf.
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        total = total * tl.exp(m - m_safe) + tl.sum(tl.exp(x - m_safe), axis=0)
        m = m_new
    m = tl.where(m == float("-inf"), 0.0, m)
    scale = 1.0 / total
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(Y + cols, tl.exp(x - m) * scale, mask=cols < N)


def long_softmax(x: torch.Tensor) -> torch.Tensor:
    shape = x.shape
    x = x.reshape(-1, shape[-1])
    if x.stride(-1) != 1:
        x = x.contiguous()
    y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    rows, n = x.shape
    long_softmax_kernel[(rows,)](x, y, x.stride(0), y.stride(0), n, BLOCK=1024, num_warps=8)
    return y.view(shape)


def test_long_softmax():
    logits = torch.randn(8, 16, 50257, device="cuda", dtype=torch.bfloat16)
    long_softmax(logits)
    scores = torch.randn(256, 32000, device="cuda")
    out = long_softmax(scores)
    assert out.shape == scores.shape


if __name__ == "__main__":
    test_long_softmax()
