"""Attention over a whole sequence, one block of queries per program."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, T, stride_h, stride_t,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    q_ptr += head * stride_h
    k_ptr += head * stride_h
    v_ptr += head * stride_h
    o_ptr += head * stride_h
    m = start_m + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * stride_t + d[None, :], mask=m[:, None] < T, other=0.0)
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, T, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + n[None, :] * stride_t + d[:, None], mask=n[None, :] < T, other=0.0)
        v = tl.load(v_ptr + n[:, None] * stride_t + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(n[None, :] < T, s, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(s, axis=1))
        p = tl.exp(s - new_highest[:, None])
        rescale = tl.exp(highest - new_highest)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        highest = new_highest
    out = acc / total[:, None]
    tl.store(o_ptr + m[:, None] * stride_t + d[None, :], out.to(o_ptr.dtype.element_ty), mask=m[:, None] < T)


def attention(q, k, v):
    B, H, T, D = q.shape
    o = torch.empty_like(q)
    BLOCK = 64
    grid = (triton.cdiv(T, BLOCK), B * H)
    attention_kernel[grid](
        q, k, v, o, 1.0 / math.sqrt(D), T, q.stride(1), q.stride(2), BLOCK_M=BLOCK, BLOCK_N=BLOCK, D=D
    )
    return o


if __name__ == "__main__":
    q = torch.randn(8, 16, 2048, 128, device="cuda", dtype=torch.float16)
    k = torch.randn_like(q)
    v = torch.randn_like(q)
    attention(q, k, v)
