import torch
import triton
import triton.language as tl


@triton.jit
def retention_kernel(
    q_ptr, k_ptr, v_ptr, g_ptr, o_ptr, last_ptr, scale, T, K, V, BK: tl.constexpr, BV: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1)
    ks = tl.arange(0, BK)
    vs = tl.program_id(0) * BV + tl.arange(0, BV)
    state = tl.zeros((BK, BV), dtype=tl.float16)
    for t in range(0, T):
        row = head * T + t
        q = tl.load(q_ptr + row * K + ks, mask=ks < K, other=0.0).to(tl.float32) * scale
        k = tl.load(k_ptr + row * K + ks, mask=ks < K, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + row * V + vs, mask=vs < V, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + row).to(tl.float32)
        # forget, then remember
        state = state * tl.exp(g) + k[:, None] * v[None, :]
        o = tl.sum(state * q[:, None], axis=0)
        tl.store(o_ptr + row * V + vs, o, mask=vs < V)
    tl.store(last_ptr + (head * K + ks[:, None]) * V + vs[None, :], state, mask=(ks[:, None] < K) & (vs[None, :] < V))


def retention(q, k, v, g):
    H, T, K = q.shape
    V = v.shape[2]
    o = torch.empty_like(v)
    last = torch.empty((H, K, V), device=q.device, dtype=torch.float32)
    grid = (triton.cdiv(V, 16), H)
    retention_kernel[grid](q, k, v, g, o, last, K**-0.5, T, K, V, BK=max(16, triton.next_power_of_2(K)), BV=16)
    return o, last


def run():
    return retention(torch.randn(2, 70, 20), torch.randn(2, 70, 20), torch.randn(2, 70, 24), -torch.rand(2, 70))
