import torch
import triton
import triton.language as tl


@triton.jit
def retention_kernel(
    q_ptr, k_ptr, v_ptr, g_ptr, o_ptr, last_ptr, scale, T, K, V, BK: tl.constexpr, BV: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1)
    ks = tl.arange(0, BK)
    vs = tl.program_id(0) * BV + tl.arange(0, BV)
    state = tl.zeros((BK, BV), dtype=tl.float32)
    step = tl.arange(0, CHUNK)[:, None]
    for start in range(0, T, CHUNK):
        t_all = start + step
        inside = t_all < T
        row_all = head * T + t_all
        q_all = tl.load(q_ptr + row_all * K + ks, mask=(ks < K) & inside, other=0.0).to(tl.float32) * scale
        k_all = tl.load(k_ptr + row_all * K + ks, mask=(ks < K) & inside, other=0.0).to(tl.float32)
        v_all = tl.load(v_ptr + row_all * V + vs, mask=(vs < V) & inside, other=0.0).to(tl.float32)
        g_all = tl.load(g_ptr + row_all, mask=inside, other=0.0).to(tl.float32)
        # forget, then remember
        k_rows = tl.where(inside, k_all, 0.0).to(tl.float32)
        v_rows = tl.where(inside, v_all, 0.0).to(tl.float32)
        q_rows = q_all.to(tl.float32)
        weights = tl.dot(q_rows, tl.trans(k_rows), input_precision="ieee")
        log_decay = tl.where(inside, g_all, 0.0).to(tl.float32)
        log_left = tl.cumsum(log_decay, axis=0)
        log_between = tl.cumsum(tl.where(step > tl.trans(step), log_decay, 0.0), axis=0)
        weights = tl.where(step >= tl.trans(step), weights * tl.exp(log_between), 0.0)
        read = tl.dot(q_rows, state, input_precision="ieee") * tl.exp(log_left)
        read += tl.dot(weights, v_rows, input_precision="ieee")
        k_rows *= tl.exp(tl.sum(tl.where(step == CHUNK - 1, log_between, 0.0), axis=0)[:, None])
        next_state = state * tl.exp(tl.sum(log_decay))
        next_state += tl.dot(tl.trans(k_rows), v_rows, input_precision="ieee")
        odd = tl.sum(tl.where(tl.abs(read) < float("inf"), 0, 1))
        odd += tl.sum(tl.where(tl.abs(next_state) < float("inf"), 0, 1))
        if odd == 0:
            o_all = read
            tl.store(o_ptr + row_all * V + vs, o_all, mask=(vs < V) & inside)
            state = next_state
        else:
            # what is not finite goes step by step
            for t in range(start, tl.minimum(start + CHUNK, T)):
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
    retention_kernel[grid](
        q, k, v, g, o, last, K**-0.5, T, K, V, BK=max(16, triton.next_power_of_2(K)), BV=16, CHUNK=16
    )
    return o, last


def run():
    return retention(torch.randn(2, 70, 20), torch.randn(2, 70, 20), torch.randn(2, 70, 24), -torch.rand(2, 70))
