import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(q, k, v, out, T, K: tl.constexpr, V: tl.constexpr, CHUNK: tl.constexpr):
    """Each step reads what the steps before it have left."""
    head = tl.program_id(0)
    rows, cols = tl.arange(0, V), tl.arange(0, K)
    memory = tl.zeros([V, K], tl.float32)
    step = tl.arange(0, CHUNK)[:, None]
    for start in range(0, T, CHUNK):
        t_all = start + step
        inside = t_all < T
        at_all = head * T + t_all
        query_all = tl.load(q + at_all * K + cols, mask=inside, other=0.0)
        key_all = tl.load(k + at_all * K + cols, mask=inside, other=0.0)
        value_all = tl.load(v + at_all * V + rows, mask=inside, other=0.0)
        key_rows = tl.where(inside, key_all, 0.0).to(tl.float32)
        value_rows = tl.where(inside, value_all, 0.0).to(tl.float32)
        query_rows = query_all.to(tl.float32)
        weights = tl.dot(query_rows, tl.trans(key_rows), input_precision="ieee")
        weights = tl.where(step > tl.trans(step), weights, 0.0)
        read = tl.dot(query_rows, tl.trans(memory), input_precision="ieee")
        read += tl.dot(weights, value_rows, input_precision="ieee")
        next_memory = memory
        next_memory += tl.dot(tl.trans(value_rows), key_rows, input_precision="ieee")
        odd = tl.sum(tl.where(tl.abs(read) < float("inf"), 0, 1))
        odd += tl.sum(tl.where(tl.abs(next_memory) < float("inf"), 0, 1))
        if odd == 0:
            tl.store(out + at_all * V + rows, read, mask=inside)
            memory = next_memory
        else:
            # what is not finite goes step by step
            for t in range(start, tl.minimum(start + CHUNK, T)):
                at = head * T + t
                query = tl.load(q + at * K + cols)
                key = tl.load(k + at * K + cols)
                value = tl.load(v + at * V + rows)
                tl.store(out + at * V + rows, tl.sum(query[None, :] * memory, axis=1))
                memory += value[:, None] * key[None, :]


def linear(q, k, v):
    H, T, K = q.shape
    out = torch.empty_like(v)
    linear_kernel[(H,)](q, k, v, out, T, K=K, V=v.shape[2], CHUNK=16)
    return out


def run():
    return linear(torch.randn(2, 70, 16), torch.randn(2, 70, 16), torch.randn(2, 70, 32))
