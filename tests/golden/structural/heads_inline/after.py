import torch
import triton
import triton.language as tl


@triton.jit
def paged_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    lengths_ptr,
    o_ptr,
    lse_ptr,
    pages,
    scale,
    heads,
    kv_heads,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SINKS: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    kv_head = tl.program_id(0)
    # The heads of queries that share kv_head.
    member = tl.arange(0, BLOCK_H)
    head = kv_head * GROUP + member
    in_group = member < GROUP
    batch = tl.program_id(1)
    length = tl.load(lengths_ptr + batch)
    d = tl.arange(0, BLOCK_D)
    q_ptr += (batch * heads + head) * D
    # scaled once
    q = tl.load(
        q_ptr[:, None] + d[None, :], mask=(d[None, :] < D) & in_group[:, None], other=0.0
    ).to(tl.float32) * scale
    m = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    l = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_D], tl.float32)
    if SINKS:
        m = tl.full((BLOCK_H,), 0.5, dtype=tl.float32)
        l += 1.0
    for page in range(0, tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + batch * pages + page)
        lanes = tl.arange(0, PAGE)
        seen = page * PAGE + lanes < length
        at = ((block * PAGE + lanes[:, None]) * kv_heads + kv_head) * D + d[None, :]
        k = tl.load(k_ptr + at, mask=seen[:, None] & (d[None, :] < D), other=0.0)
        s = tl.dot(q, tl.trans(k.to(tl.float32)), input_precision="ieee")
        s = tl.where(seen[None, :], s, float("-inf"))
        larger = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - larger[:, None])
        l = l * tl.exp(m - larger) + tl.sum(p, axis=1)
        v = tl.load(v_ptr + at, mask=seen[:, None] & (d[None, :] < D), other=0.0)
        acc *= tl.exp(m - larger)[:, None]
        acc += tl.dot(p, v.to(tl.float32), input_precision="ieee")
        m = larger
    tl.store(
        o_ptr + (batch * heads + head[:, None]) * D + d[None, :],
        acc / l[:, None],
        mask=(d[None, :] < D) & in_group[:, None],
    )
    tl.store(lse_ptr + batch * heads + head, m + tl.log(l), mask=in_group)


def paged(q, k, v, table, lengths, sinks):
    B, H, D = q.shape
    kv_heads = k.shape[2]
    group = H // kv_heads
    o = torch.empty(B, H, D)
    lse = torch.empty(B, H)
    grid = (kv_heads, B)
    paged_kernel[grid](
        q,
        k,
        v,
        table,
        lengths,
        o,
        lse,
        table.shape[1],
        D**-0.5,
        H,
        kv_heads,
        GROUP=group,
        D=D,
        PAGE=k.shape[1],
        BLOCK_D=triton.next_power_of_2(D),
        SINKS=sinks,
        BLOCK_H=triton.next_power_of_2(triton.cdiv(H, kv_heads)),
    )
    return o, lse


def run():
    q, (k, v) = torch.randn(2, 4, 24).half(), torch.randn(2, 6, 16, 2, 24).half()
    table, lengths = torch.tensor([[3, 0, 5], [1, 4, 2]]), torch.tensor([37, 16])
    return (*paged(q, k, v, table, lengths, False), *paged(q, k, v, table, lengths, True))
