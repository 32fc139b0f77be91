"""Causal attention that also returns the log-sum-exp of every row for the backward pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, T,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    base = tl.program_id(1) * T * D
    m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    row_max = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = min((pid + 1) * BLOCK_M, T)
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v)
        row_max = new_max
    acc = acc / row_sum[:, None]
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], acc.to(o_ptr.dtype.element_ty), mask=m[:, None] < T)
    tl.store(lse_ptr + tl.program_id(1) * T + m, row_max + tl.log(row_sum), mask=m < T)


class CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        batch, heads, T, D = q.shape
        o = torch.empty_like(q)
        lse = torch.empty((batch, heads, T), device=q.device, dtype=torch.float32)
        BLOCK_M, BLOCK_N = 64, 32

        def grid(meta):
            return triton.cdiv(T, meta["BLOCK_M"]), batch * heads

        causal_attention_kernel[grid](q, k, v, o, lse, D**-0.5, T, D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
        ctx.save_for_backward(q, k, v, o, lse)
        return o, lse


def causal_attention(q, k, v):
    return CausalAttention.apply(q, k, v)


if __name__ == "__main__":
    q = torch.randn(4, 32, 2048, 64, device="cuda", dtype=torch.bfloat16)
    k = torch.randn_like(q)
    v = torch.randn_like(q)
    causal_attention(q, k, v)
