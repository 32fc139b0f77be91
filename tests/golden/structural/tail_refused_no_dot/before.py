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
    for start in tl.range(0, T, BLOCK_N, num_stages=2):
        n = start + lanes
        k = tl.load(K + head + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
        v = tl.load(V + head + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.sum(q[:, :, None] * k[None, :, :], axis=1) * sm_scale
        inside = n[None, :] < T
        s = tl.where(inside, s, float("-inf"))  # keys beyond the end have no weight
        larger = tl.maximum(highest, tl.max(s, axis=1))
        p = tl.exp(s - larger[:, None])
        rescale = tl.exp(highest - larger)
        total = total * rescale + tl.sum(p, axis=1)
        acc = acc * rescale[:, None] + tl.sum(p[:, :, None] * v[None, :, :], axis=1)
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
