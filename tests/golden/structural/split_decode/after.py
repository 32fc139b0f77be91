import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    scale,
    S,
    m_parts_ptr,
    l_parts_ptr,
    acc_parts_ptr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    IN_PARTS: tl.constexpr,
):
    head = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d)
    m = -float("inf")
    l = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    tile = tl.program_id(0)
    if IN_PARTS:
        part = tl.program_id(1)
        rounds = tl.cdiv(S, BLOCK * SPLIT)
        first = part * rounds * BLOCK
        # -inf - -inf is for the very first round alone, as in one loop over all rounds
        m = tl.where(part == 0, m, -3.4028234663852886e38)
        for start in range(first, tl.minimum(first + rounds * BLOCK, S), BLOCK):
            s = start + tl.arange(0, BLOCK)
            at = (head * S + s[:, None]) * D + d[None, :]
            k = tl.load(k_ptr + at, mask=s[:, None] < S, other=0.0)
            scores = tl.where(s < S, tl.sum(q[None, :] * k, axis=1) * scale, -float("inf"))
            m_new = tl.maximum(m, tl.max(scores, axis=0))
            p = tl.exp(scores - m_new)
            alpha = tl.exp(m - m_new)
            l = l * alpha + tl.sum(p, axis=0)
            acc *= alpha
            v = tl.load(v_ptr + at, mask=s[:, None] < S, other=0.0)
            acc += tl.sum(p[:, None] * v, axis=0)
            m = m_new
        slot = (tile * SPLIT + part).to(tl.int64)
        tl.store(m_parts_ptr + slot, m)
        tl.store(l_parts_ptr + slot, l)
        tl.store(acc_parts_ptr + slot * D + tl.arange(0, D), acc)
    else:
        for part in range(SPLIT):
            slot = (tile * SPLIT + part).to(tl.int64)
            part_highest = tl.load(m_parts_ptr + slot)
            larger = tl.maximum(tl.maximum(m, part_highest), -3.4028234663852886e38)
            scale_before = tl.exp(m - larger)
            scale_part = tl.exp(part_highest - larger)
            m = larger
            l = l * scale_before + tl.load(l_parts_ptr + slot) * scale_part
            acc = acc * scale_before + tl.load(acc_parts_ptr + slot * D + tl.arange(0, D)) * scale_part
        tl.store(o_ptr + head * D + d, acc / l)
        tl.store(lse_ptr + head, m + tl.log(l))


def decode(q, k, v, scale=0.25):
    H, S, D = k.shape
    o = torch.empty_like(q)
    lse = torch.empty(H, device=q.device, dtype=torch.float32)
    SPLIT = 16
    m_parts = torch.empty(H * SPLIT, device=q.device, dtype=torch.float32)
    l_parts = torch.empty(H * SPLIT, device=q.device, dtype=torch.float32)
    acc_parts = torch.empty((H * SPLIT, D), device=q.device, dtype=torch.float32)
    for in_parts in (True, False):  # every part, then what the parts come to
        decode_kernel[(H, SPLIT if in_parts else 1)](
            q,
            k,
            v,
            o,
            lse,
            scale,
            S,
            D=D,
            BLOCK=16,
            m_parts_ptr=m_parts,
            l_parts_ptr=l_parts,
            acc_parts_ptr=acc_parts,
            SPLIT=SPLIT,
            IN_PARTS=in_parts,
        )
    return o, lse


def run():
    return decode(torch.randn(3, 16), torch.randn(3, 100, 16), torch.randn(3, 100, 16))
