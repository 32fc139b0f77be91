import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, S, D: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        s = start + tl.arange(0, BLOCK)
        at = (head * S + s[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=s[:, None] < S, other=0.0)
        scores = tl.where(s < S, tl.sum(q[None, :] * k, axis=1) * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        p = tl.where(scores > m_new - 5.0, tl.exp(scores - m_new), 0.0)
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=0)
        acc *= alpha
        v = tl.load(v_ptr + at, mask=s[:, None] < S, other=0.0)
        acc += tl.sum(p[:, None] * v, axis=0)
        m = m_new
    tl.store(o_ptr + head * D + d, acc / l)
    tl.store(lse_ptr + head, m + tl.log(l))


def decode(q, k, v, scale=0.25):
    H, S, D = k.shape
    o = torch.empty_like(q)
    lse = torch.empty(H, device=q.device, dtype=torch.float32)
    decode_kernel[(H,)](q, k, v, o, lse, scale, S, D=D, BLOCK=16)
    return o, lse


def run():
    return decode(torch.randn(3, 16), torch.randn(3, 100, 16), torch.randn(3, 100, 16))
