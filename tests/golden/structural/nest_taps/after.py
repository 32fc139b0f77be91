import torch
import triton
import triton.language as tl


@triton.jit
def taps_kernel(x, w, y, T, C, K, S: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr, BC: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    k = tl.arange(0, BK)
    acc = tl.zeros((BT, BK), dtype=tl.float32)
    blocks_c = tl.cdiv(C, BC)
    for step in range(S * blocks_c):
        s = step // blocks_c
        at = t - s
        inside = (at[:, None] >= 0) & (at[:, None] < T)
        start = step % blocks_c * BC
        c = start + tl.arange(0, BC)
        a = tl.load(x + at[:, None] * C + c[None, :], mask=inside & (c[None, :] < C), other=0.0)
        b = tl.load(w + (k[None, :] * S + s) * C + c[:, None], mask=(k[None, :] < K) & (c[:, None] < C), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(y + t[:, None] * K + k[None, :], acc, mask=(t[:, None] < T) & (k[None, :] < K))


def filtered(x, w):
    T, C = x.shape
    K, S, _ = w.shape
    y = torch.empty((T, K), device=x.device, dtype=torch.float32)
    taps_kernel[(triton.cdiv(T, 16),)](x, w, y, T, C, K, S=S, BT=16, BK=16, BC=16)
    return y


def run():
    return filtered(torch.randn(40, 18, dtype=torch.float16), torch.randn(3, 2, 18, dtype=torch.float16))
