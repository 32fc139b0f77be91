"""Attention of one new query per sequence over its cache; several heads of queries share one of the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, S, heads, kv_heads, D: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr
):
    batch = tl.program_id(0)
    # which head of the cache
    kv_head = tl.program_id(1)
    group = tl.cdiv(heads, kv_heads)
    # The heads of queries that share kv_head.
    member = tl.arange(0, BLOCK_H)
    head = kv_head * group + member
    in_group = (member < group) & (head < heads)
    d = tl.arange(0, D)
    q = tl.load(
        q_ptr + (batch * heads + head[:, None]) * D + d[None, :], mask=in_group[:, None], other=0.0
    ).to(tl.float32)
    highest = tl.full((BLOCK_H,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_H, D), dtype=tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        at = ((batch * S + s[:, None]) * kv_heads + kv_head) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=s[:, None] < S, other=0.0).to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(s[None, :] < S, scores, -float("inf"))  # keys beyond the end
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp(scores - new_highest[:, None])
        rescale = tl.exp(highest - new_highest)
        v = tl.load(v_ptr + at, mask=s[:, None] < S, other=0.0).to(tl.float32)
        acc = acc * rescale[:, None] + tl.dot(p, v, input_precision="ieee")
        total = total * rescale + tl.sum(p, axis=1)
        highest = new_highest
    tl.store(
        o_ptr + (batch * heads + head[:, None]) * D + d[None, :],
        (acc / total[:, None]).to(o_ptr.dtype.element_ty),
        mask=in_group[:, None],
    )


def decode(q, k_cache, v_cache):
    B, H, D = q.shape
    S, H_kv = k_cache.shape[1], k_cache.shape[2]
    o = torch.empty((B, H, D), device=q.device)
    decode_kernel[(B, H_kv)](
        q,
        k_cache,
        v_cache,
        o,
        D**-0.5,
        S,
        H,
        H_kv,
        D=D,
        BLOCK_S=64,
        BLOCK_H=triton.next_power_of_2(triton.cdiv(H, H_kv)),
        num_warps=8,
    )
    return o


def run():
    q, (k, v) = torch.randn(2, 6, 16).half(), torch.randn(2, 2, 75, 2, 16).half()
    return decode(q, k, v)
