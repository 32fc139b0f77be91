"""Quantises every row to int8 with a scale of its own."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantize_kernel(x_ptr, q_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    highest = tl.max(tl.abs(x), axis=0)
    scale = tl.maximum(highest, 1e-8) / 127.0
    q = x / scale
    q = tl.where(q >= 0, tl.floor(q + 0.5), -tl.floor(0.5 - q))
    tl.store(q_ptr + row * cols + c, q.to(tl.int8), mask=c < cols)
    tl.store(scale_ptr + row, scale)


def block_for(cols):
    return triton.next_power_of_2(cols)


def quantize(x):
    rows, cols = x.shape
    q = torch.empty((rows, cols), device=x.device, dtype=torch.int8)
    scale = torch.empty(rows, device=x.device, dtype=torch.float32)
    quantize_kernel[(rows,)](x, q, scale, cols, BLOCK=block_for(cols))
    return q, scale


if __name__ == "__main__":
    quantize(torch.randn(16384, 5120, device="cuda", dtype=torch.float16))
