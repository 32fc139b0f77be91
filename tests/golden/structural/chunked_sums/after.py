import torch
import triton
import triton.language as tl


@triton.jit
def running_kernel(x_ptr, o_ptr, T, D, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    step = tl.arange(0, CHUNK)[:, None]
    for start in range(0, T, CHUNK):
        t_all = start + step
        inside = t_all < T
        added = tl.where(inside, tl.load(x_ptr + t_all * D + d, mask=(d < D) & inside, other=0.0), 0.0).to(tl.float32)
        total_all = tl.cumsum(added, axis=0) + total
        odd = tl.where(tl.abs(total_all) < float("inf"), 0, 1)
        if tl.sum(odd) == 0:
            tl.store(o_ptr + t_all * D + d, total_all, mask=(d < D) & inside)
            total = tl.sum(tl.where(step == CHUNK - 1, total_all, 0.0), axis=0)
        else:
            # what is not finite, or may not stay so, goes step by step
            for t in range(start, tl.minimum(start + CHUNK, T)):
                total += tl.load(x_ptr + t * D + d, mask=d < D)
                tl.store(o_ptr + t * D + d, total, mask=d < D)


def running(x):
    T, D = x.shape
    o = torch.empty_like(x)
    running_kernel[(triton.cdiv(D, 16),)](x, o, T, D, BLOCK=16, CHUNK=32)
    return o


def run():
    return running(torch.randn(75, 20))
