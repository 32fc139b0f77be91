"""Gradients of attention, causal or not: one kernel for queries, one for keys and values."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, scale, T,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    head = tl.program_id(1)
    base = head * T * D
    m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    do = tl.load(do_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    lse = tl.load(lse_ptr + head * T + m, mask=m < T, other=0.0)
    delta = tl.load(delta_ptr + head * T + m, mask=m < T, other=0.0)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = min((pid + 1) * BLOCK_M, T)
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        p = tl.exp(s - lse[:, None])
        keep = n[None, :] < T
        if CAUSAL:
            keep = keep & (m[:, None] >= n[None, :])
        p = tl.where(keep, p, 0.0)
        dp = tl.dot(do, tl.trans(v))
        ds = p * (dp - delta[:, None]) * scale
        dq += tl.dot(ds.to(k.dtype), k)
    tl.store(dq_ptr + base + m[:, None] * D + d[None, :], dq.to(dq_ptr.dtype.element_ty), mask=m[:, None] < T)


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, T,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    head = tl.program_id(1)
    base = head * T * D
    n = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
    v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    first = 0
    if CAUSAL:
        first = (pid * BLOCK_N // BLOCK_M) * BLOCK_M
    for start in range(first, T, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
        do = tl.load(do_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
        lse = tl.load(lse_ptr + head * T + m, mask=m < T, other=0.0)
        delta = tl.load(delta_ptr + head * T + m, mask=m < T, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        p = tl.exp(s - lse[:, None])
        keep = (m[:, None] < T) & (n[None, :] < T)
        if CAUSAL:
            keep = keep & (m[:, None] >= n[None, :])
        p = tl.where(keep, p, 0.0)
        dv += tl.dot(tl.trans(p.to(do.dtype)), do)
        dp = tl.dot(do, tl.trans(v))
        ds = p * (dp - delta[:, None]) * scale
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(dk_ptr + base + n[:, None] * D + d[None, :], dk.to(dk_ptr.dtype.element_ty), mask=n[:, None] < T)
    tl.store(dv_ptr + base + n[:, None] * D + d[None, :], dv.to(dv_ptr.dtype.element_ty), mask=n[:, None] < T)


def attention_backward(q, k, v, o, lse, do, causal):
    B, H, T, D = q.shape
    delta = (o.float() * do.float()).sum(-1)
    dq = torch.empty_like(q)
    dk = torch.empty_like(k)
    dv = torch.empty_like(v)
    BLOCK_M = 64
    BLOCK_N = 64
    grid = (triton.cdiv(T, BLOCK_M), B * H)
    attention_dq_kernel[grid](
        q, k, v, do, lse, delta, dq, D**-0.5, T, CAUSAL=causal, D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    grid = (triton.cdiv(T, BLOCK_N), B * H)
    attention_dkdv_kernel[grid](
        q, k, v, do, lse, delta, dk, dv, D**-0.5, T, CAUSAL=causal, D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    return dq, dk, dv


if __name__ == "__main__":
    q, k, v, o, do = (torch.randn(4, 16, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(5))
    lse = torch.full((4, 16, 2048), 8.0, device="cuda")
    attention_backward(q, k, v, o, lse, do, True)
    attention_backward(q, k, v, o, lse, do, False)
