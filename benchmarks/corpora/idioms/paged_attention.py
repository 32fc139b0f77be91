# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def paged_kernel(q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, scale, stride_t, PAGE: tl.constexpr, D: tl.constexpr):
    seq = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + seq * D + d) * scale
    length = tl.load(lengths_ptr + seq)
    best, total = -float("inf"), 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + seq * stride_t + page)
        t = tl.arange(0, PAGE)
        inside = page * PAGE + t < length
        at = (block * PAGE + t)[:, None] * D + d[None, :]
        s = tl.sum(tl.load(k_ptr + at, mask=inside[:, None], other=0.0) * q[None, :], 1)
        s = tl.where(inside, s, -float("inf"))
        new = tl.maximum(best, tl.max(s, 0))
        p = tl.exp(s - new)
        fix = tl.exp(best - new)
        acc = acc * fix + tl.sum(p[:, None] * tl.load(v_ptr + at, mask=inside[:, None], other=0.0), 0)
        total = total * fix + tl.sum(p, 0)
        best = new
    tl.store(o_ptr + seq * D + d, acc / total)


def paged_attention(q, k_cache, v_cache, table, lengths):
    o = torch.empty_like(q)
    pages, page, width = k_cache.shape
    paged_kernel[(q.shape[0],)](q, k_cache, v_cache, table, lengths, o, width**-0.5, table.stride(0), PAGE=page, D=width)
    return o


if __name__ == "__main__":
    lengths = torch.tensor([5, 33, 16], dtype=torch.int32, device="cuda")
    table = torch.randperm(12, device="cuda").view(3, 4).to(torch.int32)
    cache = torch.randn(2, 12, 16, 32, device="cuda")
    paged_attention(torch.randn(3, 32, device="cuda"), cache[0], cache[1], table, lengths)
