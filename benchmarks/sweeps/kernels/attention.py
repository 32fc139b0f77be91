"""Attention: forward over a whole causal sequence, one query of a decoder over a long cache, and a backward pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, length,
    WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * length * WIDTH
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + base + m[:, None] * WIDTH + d[None, :], mask=m[:, None] < length, other=0.0)
    top = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length)
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * WIDTH + d[:, None], mask=n[None, :] < length, other=0.0)
        s = tl.dot(q, k) * (scale * 1.4426950408889634)
        s = tl.where((n[None, :] <= m[:, None]) & (n[None, :] < length), s, -1e30)
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new
    at = base + m[:, None] * WIDTH + d[None, :]
    tl.store(out_ptr + at, (acc / total[:, None]).to(tl.float16), mask=m[:, None] < length)
    tl.store(lse_ptr + tl.program_id(1) * length + m, top + tl.log2(total), mask=m < length)


def attention(q, k, v, BLOCK_M, BLOCK_N, num_warps, num_stages):
    heads, length, width = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((heads, length), device=q.device, dtype=torch.float32)
    attention_kernel[(triton.cdiv(length, BLOCK_M), heads)](
        q, k, v, out, lse, width**-0.5, length,
        WIDTH=width, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out, lse


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, part_ptr, top_ptr, total_ptr, scale, length,
    WIDTH: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    base = head.to(tl.int64) * length * WIDTH
    g = tl.arange(0, GROUP)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + (head * GROUP + g[:, None]) * WIDTH + d[None, :])
    top = tl.full((GROUP,), -1e30, tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, WIDTH), tl.float32)
    chunk = tl.cdiv(length, SPLIT)
    first = tl.program_id(1) * chunk
    end = tl.minimum(first + chunk, length)
    for start in range(first, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[None, :] * WIDTH + d[:, None], mask=n[None, :] < end, other=0.0)
        s = tl.where(n[None, :] < end, tl.dot(q, k) * scale, -1e30)
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < end, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new
    at = (head * SPLIT + tl.program_id(1)) * GROUP + g
    tl.store(part_ptr + at[:, None] * WIDTH + d[None, :], acc)
    tl.store(top_ptr + at, top)
    tl.store(total_ptr + at, total)


def decode(q, k, v, SPLIT, BLOCK_N, num_warps, num_stages):
    heads, group, width = q.shape
    length = k.shape[1]
    part = torch.empty((heads, SPLIT, group, width), device=q.device, dtype=torch.float32)
    top, total = (torch.empty((heads, SPLIT, group), device=q.device, dtype=torch.float32) for _ in range(2))
    decode_kernel[(heads, SPLIT)](
        q, k, v, part, top, total, width**-0.5, length,
        WIDTH=width, GROUP=group, SPLIT=SPLIT, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return part, top, total


@triton.jit
def attention_backward_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, length,
    WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * length * WIDTH
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, WIDTH)
    k = tl.load(k_ptr + base + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < length, other=0.0)
    v = tl.load(v_ptr + base + n[:, None] * WIDTH + d[None, :], mask=n[:, None] < length, other=0.0)
    dk = tl.zeros((BLOCK_N, WIDTH), tl.float32)
    dv = tl.zeros((BLOCK_N, WIDTH), tl.float32)
    first = ((tl.program_id(0) * BLOCK_N) // BLOCK_M) * BLOCK_M
    for start in range(first, length, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + base + m[:, None] * WIDTH + d[None, :], mask=m[:, None] < length, other=0.0)
        lse = tl.load(lse_ptr + tl.program_id(1) * length + m, mask=m < length, other=0.0)
        s = tl.dot(k, tl.trans(q)) * (scale * 1.4426950408889634)
        p = tl.where(n[:, None] <= m[None, :], tl.exp2(s - lse[None, :]), 0.0)
        grad = tl.load(grad_ptr + base + m[:, None] * WIDTH + d[None, :], mask=m[:, None] < length, other=0.0)
        dv = tl.dot(p.to(grad.dtype), grad, dv)
        delta = tl.load(delta_ptr + tl.program_id(1) * length + m, mask=m < length, other=0.0)
        ds = p * (tl.dot(v, tl.trans(grad)) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    at = base + n[:, None] * WIDTH + d[None, :]
    tl.store(dk_ptr + at, (dk * scale).to(tl.float16), mask=n[:, None] < length)
    tl.store(dv_ptr + at, dv.to(tl.float16), mask=n[:, None] < length)


def attention_backward(q, k, v, grad, lse, delta, BLOCK_M, BLOCK_N, num_warps, num_stages):
    heads, length, width = q.shape
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    attention_backward_kernel[(triton.cdiv(length, BLOCK_N), heads)](
        q, k, v, grad, lse, delta, dk, dv, width**-0.5, length,
        WIDTH=width, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dk, dv
