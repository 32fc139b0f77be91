import math

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(Q, K, V, Out, sm_scale, T, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head = tl.program_id(1) * T * D
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q = tl.load(Q + head + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    highest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)

    # all keys, a block at a time
    # The blocks before this one hold no keys beyond T.
    full_end = T // BLOCK_N * BLOCK_N
    for start in tl.range(0, full_end, BLOCK_N, num_stages=2):
        n = start + lanes
        k = tl.load(K + head + n[None, :] * D + d[:, None])
        v = tl.load(V + head + n[:, None] * D + d[None, :])
        s = tl.dot(q, k, input_precision="ieee") * sm_scale
        larger = tl.maximum(highest, tl.max(s, axis=1))
        p = tl.exp(s - larger[:, None])
        rescale = tl.exp(highest - larger)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        highest = larger
    for start in tl.range(full_end, T, BLOCK_N, num_stages=2):
        n = start + lanes
        k = tl.load(K + head + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
        v = tl.load(V + head + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * sm_scale
        inside = n[None, :] < T
        s = tl.where(inside, s, float("-inf"))  # keys beyond the end have no weight
        larger = tl.maximum(highest, tl.max(s, axis=1))
        p = tl.exp(s - larger[:, None])
        rescale = tl.exp(highest - larger)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        highest = larger
    out = acc / total[:, None]
    tl.store(Out + head + m[:, None] * D + d[None, :], out.to(Out.dtype.element_ty), mask=m[:, None] < T)


def attention(q, k, v):
    B, H, T, D = q.shape
    o = torch.empty_like(q)
    attention_kernel[(triton.cdiv(T, 32), B * H)](q, k, v, o, 1 / math.sqrt(D), T, D, BLOCK_M=32, BLOCK_N=16)
    return o


def run():
    return tuple(attention(*torch.randn(3, 1, 2, T, 16)) for T in (7, 48, 75))
