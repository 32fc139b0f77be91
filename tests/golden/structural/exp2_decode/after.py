import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(Q, K, V, Out, sm_scale, seq_len, D: tl.constexpr, BLOCK: tl.constexpr):
    """One query a program."""
    head = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(Q + head * D + d)
    m_i = -float("inf")
    l_i = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    sm_scale_log2 = sm_scale * 1.4426950408889634
    for start in range(0, seq_len, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(K + (head * seq_len + n[:, None]) * D + d[None, :], mask=n[:, None] < seq_len, other=0.0)
        qk = tl.sum(q[None, :] * k, axis=1)
        qk *= sm_scale_log2  # 1 / sqrt(D)
        qk = tl.where(n < seq_len, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 0))
        p = tl.math.exp2(qk - m_ij)
        alpha = tl.math.exp2(m_i - m_ij)
        v = tl.load(V + (head * seq_len + n[:, None]) * D + d[None, :], mask=n[:, None] < seq_len, other=0.0)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        l_i = l_i * alpha + tl.sum(p, 0)
        m_i = m_ij
    tl.store(Out + head * D + d, acc / l_i)


def decode(q, k, v):
    heads, seq_len, D = k.shape
    out = torch.empty_like(q)
    decode_kernel[(heads,)](q, k, v, out, D**-0.5, seq_len, D, BLOCK=64)
    return out


def run():
    return decode(torch.randn(3, 32), torch.randn(3, 150, 32), torch.randn(3, 150, 32))
