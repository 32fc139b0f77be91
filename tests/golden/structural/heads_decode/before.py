"""Attention of one new query per sequence over its cache; several heads of queries share one of the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(q_ptr, k_ptr, v_ptr, o_ptr, scale, S, heads, kv_heads, D: tl.constexpr, BLOCK_S: tl.constexpr):
    batch = tl.program_id(0)
    head = tl.program_id(1)
    # which head of the cache
    kv_head = head // (heads // kv_heads)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (batch * heads + head) * D + d).to(tl.float32)
    highest = -float("inf")
    total = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        at = ((batch * S + s[:, None]) * kv_heads + kv_head) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=s[:, None] < S, other=0.0).to(tl.float32)
        scores = tl.sum(q[None, :] * k, axis=1) * scale
        scores = tl.where(s < S, scores, -float("inf"))  # keys beyond the end
        new_highest = tl.maximum(highest, tl.max(scores, axis=0))
        p = tl.exp(scores - new_highest)
        rescale = tl.exp(highest - new_highest)
        v = tl.load(v_ptr + at, mask=s[:, None] < S, other=0.0).to(tl.float32)
        acc = acc * rescale + tl.sum(p[:, None] * v, axis=0)
        total = total * rescale + tl.sum(p, axis=0)
        highest = new_highest
    tl.store(o_ptr + (batch * heads + head) * D + d, (acc / total).to(o_ptr.dtype.element_ty))


def decode(q, k_cache, v_cache):
    B, H, D = q.shape
    S, H_kv = k_cache.shape[1], k_cache.shape[2]
    o = torch.empty((B, H, D), device=q.device)
    decode_kernel[(B, H)](q, k_cache, v_cache, o, D**-0.5, S, H, H_kv, D=D, BLOCK_S=64)
    return o


def run():
    q, (k, v) = torch.randn(2, 6, 16).half(), torch.randn(2, 2, 75, 2, 16).half()
    return decode(q, k, v)
