"""Gated linear recurrence h[t] = exp(g[t]) * h[t-1] + x[t], one step after the other."""

import torch
import triton
import triton.language as tl


@triton.jit
def recurrence_kernel(x_ptr, g_ptr, o_ptr, T, D, BLOCK_D: tl.constexpr):
    batch = tl.program_id(1)
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = d < D
    h = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for t in range(T):
        at = (batch * T + t) * D + d
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
        h = tl.exp(g) * h + x
        tl.store(o_ptr + at, h.to(o_ptr.dtype.element_ty), mask=mask)


def recurrence(x, g):
    B, T, D = x.shape
    o = torch.empty_like(x)

    def grid(meta):
        return (triton.cdiv(D, meta["BLOCK_D"]), B)

    recurrence_kernel[grid](x, g, o, T, D, BLOCK_D=128)
    return o


if __name__ == "__main__":
    x = torch.randn(8, 2048, 2048, device="cuda")
    g = torch.nn.functional.logsigmoid(torch.randn(8, 2048, 2048, device="cuda"))
    recurrence(x, g)
