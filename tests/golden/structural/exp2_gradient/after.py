import torch
import triton
import triton.language as tl


@triton.jit
def gradient_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, scale, T,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    head = tl.program_id(1)
    base = head * T * D
    m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    do = tl.load(do_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    lse = tl.load(lse_ptr + head * T + m, mask=m < T, other=0.0) * 1.4426950408889634  # natural
    delta = tl.load(delta_ptr + head * T + m, mask=m < T, other=0.0)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = min((pid + 1) * BLOCK_M, T)
    scale_log2 = scale * 1.4426950408889634
    for start in range(0, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        p = tl.exp2(s - lse[:, None])
        keep = n[None, :] < T
        if CAUSAL:
            keep = keep & (m[:, None] >= n[None, :])
        p = tl.where(keep, p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    tl.store(dq_ptr + base + m[:, None] * D + d[None, :], dq.to(dq_ptr.dtype.element_ty), mask=m[:, None] < T)


def gradient(q, k, v, o, lse, do, causal):
    B, H, T, D = q.shape
    delta = (o * do).sum(-1)
    dq = torch.empty_like(q)
    grid = (triton.cdiv(T, 32), B * H)
    gradient_kernel[grid](
        q, k, v, do, lse, delta, dq, D**-0.5, T, CAUSAL=causal, D=D, BLOCK_M=32, BLOCK_N=16
    )  # fmt: skip
    return dq


def run():
    q, k, v, o, do = torch.randn(5, 1, 1, 53, 16)
    lse = torch.logsumexp(q @ k.mT * 16**-0.5, -1)
    return gradient(q, k, v, o, lse, do, True), gradient(q, k, v, o, lse, do, False)
