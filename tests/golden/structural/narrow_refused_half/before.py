import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, scale, M, S, D: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr):
    head = tl.program_id(1)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (head * M + m[:, None]) * D + d[None, :], mask=m[:, None] < M, other=0.0).to(tl.float32)
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        at = (head * S + s[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=s[:, None] < S, other=0.0).to(tl.float32)
        scores = tl.sum(q[:, None, :] * k[None, :, :], axis=2) * scale
        scores = tl.where(s[None, :] < S, scores, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        p = tl.exp(scores - new_highest[:, None])
        rescale = tl.exp(highest - new_highest)
        v = tl.load(v_ptr + at, mask=s[:, None] < S, other=0.0)
        acc = tl.dot(p, v.to(tl.float32), acc * rescale[:, None], input_precision="ieee")
        total = total * rescale + tl.sum(p, axis=1)
        highest = new_highest
    at = (head * M + m[:, None]) * D + d[None, :]
    tl.store(o_ptr + at, acc / total[:, None], mask=m[:, None] < M)


def attention(q, k, v):
    H, M, D = q.shape
    S = k.shape[1]
    o = torch.empty((H, M, D), device=q.device)
    attention_kernel[(triton.cdiv(M, 16), H)](q, k, v, o, D**-0.5, M, S, D=D, BM=16, BS=32)
    return o


def run():
    q, k, v = (torch.randn(2, n, 16).half() for n in (20, 75, 75))
    return attention(q, k, v)
