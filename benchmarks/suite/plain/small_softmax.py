"""Softmax over a short last axis, such as router scores or attention over a small window."""

import torch
import triton
import triton.language as tl


@triton.jit
def small_softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


def small_softmax(x):
    x = x.contiguous()
    cols = x.shape[-1]
    rows = x.numel() // cols
    out = torch.empty_like(x)
    small_softmax_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
    return out


if __name__ == "__main__":
    small_softmax(torch.randn(64, 4096, 64, device="cuda"))
