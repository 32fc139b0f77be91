"""Causal attention with grouped key/value heads: one program a block of queries of one head, softmax online."""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    scale,
    stride_qb,
    stride_qh,
    stride_qm,
    stride_qd,
    stride_kb,
    stride_kh,
    stride_kn,
    stride_kd,
    stride_vb,
    stride_vh,
    stride_vn,
    stride_vd,
    stride_ob,
    stride_oh,
    stride_om,
    stride_od,
    heads,
    group,
    length,
    head_dim,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    block = tl.program_id(0)
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    kv_head = head // group
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_at = q_ptr + batch * stride_qb + head * stride_qh + rows[:, None] * stride_qm + dims[None, :] * stride_qd
    k_base = k_ptr + batch * stride_kb + kv_head * stride_kh
    v_base = v_ptr + batch * stride_vb + kv_head * stride_vh
    q = tl.load(q_at, mask=(rows[:, None] < length) & (dims[None, :] < head_dim), other=0.0)

    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    end = tl.minimum((block + 1) * BLOCK_M, length)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_base + keys[None, :] * stride_kn + dims[:, None] * stride_kd,
            mask=(keys[None, :] < length) & (dims[:, None] < head_dim),
            other=0.0,
        )
        scores = tl.dot(q, k, input_precision="ieee") * scale
        visible = (keys[None, :] < length)
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        weights = tl.exp(scores - new_max[:, None])
        rescale = tl.exp(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(weights, axis=1)
        v = tl.load(
            v_base + keys[:, None] * stride_vn + dims[None, :] * stride_vd,
            mask=(keys[:, None] < length) & (dims[None, :] < head_dim),
            other=0.0,
        )
        acc = acc * rescale[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        row_max = new_max

    out = acc / row_sum[:, None]
    out_at = out_ptr + batch * stride_ob + head * stride_oh + rows[:, None] * stride_om + dims[None, :] * stride_od
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=(rows[:, None] < length) & (dims[None, :] < head_dim))
    tl.store(lse_ptr + tl.program_id(1) * length + rows, row_max + tl.log(row_sum), mask=rows < length)


def causal_attention(q, k, v, scale=None):
    """Attend causally.

    Args:
        q: (batch, heads, length, head_dim).
        k: (batch, kv_heads, length, head_dim), where kv_heads divides heads.
        v: as `k`.
        scale: of the scores, 1/√head_dim unless given.

    Returns:
        The output, shaped as `q`, and the logarithm of each row's sum of exponentials (batch, heads, length), float32.
    """
    batch, heads, length, head_dim = q.shape
    scale = head_dim**-0.5 if scale is None else scale
    out = torch.empty_like(q)
    lse = torch.empty((batch, heads, length), dtype=torch.float32, device=q.device)
    BLOCK_M, BLOCK_N = 64, 16
    grid = (triton.cdiv(length, BLOCK_M), batch * heads)
    causal_attention_kernel[grid](
        q,
        k,
        v,
        out,
        lse,
        scale,
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *out.stride(),
        heads,
        heads // k.shape[1],
        length,
        head_dim,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_D=max(16, triton.next_power_of_2(head_dim)),
        num_warps=4,
        num_stages=2,
    )
    return out, lse


def run():
    q = torch.randn(1, 2, 75, 24)
    k, v = torch.randn(2, 1, 1, 75, 24)
    return causal_attention(q, k, v)
