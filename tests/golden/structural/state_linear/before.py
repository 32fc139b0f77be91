import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(q, k, v, out, T, K: tl.constexpr, V: tl.constexpr):
    """Each step reads what the steps before it have left."""
    head = tl.program_id(0)
    rows, cols = tl.arange(0, V), tl.arange(0, K)
    memory = tl.zeros([V, K], tl.float32)
    for t in range(T):
        at = head * T + t
        query = tl.load(q + at * K + cols)
        key = tl.load(k + at * K + cols)
        value = tl.load(v + at * V + rows)
        tl.store(out + at * V + rows, tl.sum(query[None, :] * memory, axis=1))
        memory += value[:, None] * key[None, :]


def linear(q, k, v):
    H, T, K = q.shape
    out = torch.empty_like(v)
    linear_kernel[(H,)](q, k, v, out, T, K=K, V=v.shape[2])
    return out


def run():
    return linear(torch.randn(2, 70, 16), torch.randn(2, 70, 16), torch.randn(2, 70, 32))
