import torch
import triton
import triton.language as tl


@triton.jit
def taps_kernel(x_ptr, w_ptr, o_ptr, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(TAPS):  # the newest last
        at = i + tap - (TAPS - 1)
        x = tl.load(x_ptr + at, mask=(at >= 0) & (at < n), other=0.0)
        total += x * tl.load(w_ptr + tap)
    tl.store(o_ptr + i, total, mask=i < n)


def filtered(x, w):
    out = torch.empty_like(x)
    n = x.numel()
    taps_kernel[(triton.cdiv(n, 64),)](x, w, out, n, TAPS=4, BLOCK=64)
    return out


def run():
    return filtered(torch.randn(300), torch.randn(4))
