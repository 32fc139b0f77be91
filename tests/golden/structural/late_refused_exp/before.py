import torch
import triton
import triton.language as tl


@triton.jit
def causal_kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    base = tl.program_id(1) * T * D
    m = pid * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    row_max = tl.full((BM,), -float("inf"), dtype=tl.float32)
    row_sum = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    end = min((pid + 1) * BM, T)

    # keys up to the diagonal
    # Every row sees all keys of the blocks before this one.
    full_end = tl.minimum(pid * BM + 1, T) // BN * BN
    for start in range(0, full_end, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :])
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :])
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        row_max = new_max
    for start in range(full_end, end, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))  # no future
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp(s - new_max[:, None])
        alpha = tl.exp(row_max - new_max)
        row_sum = row_sum * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        row_max = new_max
    acc = acc / row_sum[:, None]
    tl.store(o_ptr + base + m[:, None] * D + d[None, :], acc.to(o_ptr.dtype.element_ty), mask=m[:, None] < T)
    tl.store(lse_ptr + tl.program_id(1) * T + m, row_max + tl.log(row_sum), mask=m < T)


def causal(q, k, v):
    batch, heads, T, D = q.shape
    o = torch.empty_like(q)
    lse = torch.empty((batch, heads, T), device=q.device, dtype=torch.float32)
    BM, BN = 64, 16

    def grid(meta):
        return triton.cdiv(T, meta["BM"]), batch * heads

    causal_kernel[grid](q, k, v, o, lse, D**-0.5, T, D=D, BM=BM, BN=BN)
    return o, lse


def run():
    return causal(*torch.randn(3, 1, 2, 139, 16))
