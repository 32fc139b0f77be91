"""Attention over keys of any number: one block of queries a program."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    stride_qb,
    stride_qh,
    stride_qm,
    stride_qd,
    stride_kb,
    stride_kh,
    stride_kn,
    stride_kd,
    heads,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    q_base = batch * stride_qb + head * stride_qh
    k_base = batch * stride_kb + head * stride_kh
    at = q_base + rows[:, None] * stride_qm + dims[None, :] * stride_qd
    q = tl.load(q_ptr + at, mask=rows[:, None] < length, other=0.0)

    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    if ALIGNED:
        k_desc = tl.make_tensor_descriptor(k_ptr + k_base, [length, HEAD_DIM], [stride_kn, 1], [BLOCK_N, HEAD_DIM])
        v_desc = tl.make_tensor_descriptor(v_ptr + k_base, [length, HEAD_DIM], [stride_kn, 1], [BLOCK_N, HEAD_DIM])

    # Keys in blocks, softmax online.
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < length
        # Keys are the columns of the scores.
        if ALIGNED:
            k = k_desc.load([start, 0]).T
            v = v_desc.load([start, 0])
        else:
            k = tl.load(  # transposed
                k_ptr + k_base + keys[None, :] * stride_kn + dims[:, None] * stride_kd,
                mask=inside[None, :],
                other=0.0,
            )
            # Values stand beside them.
            v = tl.load(
                v_ptr + k_base + keys[:, None] * stride_kn + dims[None, :], mask=keys[:, None] < length, other=0
            )
        scores = tl.dot(q, k) * scale
        scores = tl.where(keys[None, :] < length, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_max[:, None])
        rescale = tl.exp(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(weights, axis=1)
        acc = acc * rescale[:, None] + tl.dot(weights.to(v.dtype), v)
        row_max = new_max

    tl.store(out_ptr + at, (acc / row_sum[:, None]).to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)


def attention(q, k, v):
    """Attend.

    Args:
        q: (batch, heads, length, head_dim), contiguous.
        k: as `q`, with rows that may be further apart.
        v: laid out as `k`.

    Returns:
        As `q`.
    """
    batch, heads, length, head_dim = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(length, 32), batch * heads)
    # Tensor descriptors read rows that begin at multiples of 16 bytes, and take some memory themselves.
    aligned = (
        k.data_ptr() % 16 == 0
        and v.data_ptr() % 16 == 0
        and k.stride(0) % 16 == 0
        and k.stride(1) % 16 == 0
        and k.stride(2) % 16 == 0
        and head_dim % 16 == 0
        and k.stride(3) == 1
    )
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    attention_kernel[grid](
        q,
        k,
        v,
        out,
        head_dim**-0.5,
        *q.stride(),
        *k.stride(),
        heads,
        length,
        BLOCK_M=32,
        BLOCK_N=32,
        HEAD_DIM=head_dim,
        num_warps=4,  # one warpgroup
        ALIGNED=aligned,
    )
    return out


def run():
    q, k, v = torch.randn(3, 2, 2, 43, 16)
    # Rows that are 18 numbers apart begin where no descriptor can read them.
    apart = torch.randn(2, 2, 2, 43, 18)[..., :16]
    return attention(q, k, v), attention(q, *apart)
