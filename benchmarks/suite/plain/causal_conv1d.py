"""Short causal convolution along time, a filter for each channel, then SiLU (as in Mamba)."""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(x_ptr, w_ptr, b_ptr, y_ptr, T, D, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr):
    t = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    batch = tl.program_id(2)
    mask = d < D
    acc = tl.load(b_ptr + d, mask=mask, other=0.0).to(tl.float32)
    for i in range(WIDTH):
        at = t - (WIDTH - 1) + i
        x = tl.load(x_ptr + (batch * T + at) * D + d, mask=mask & (at >= 0), other=0.0).to(tl.float32)
        w = tl.load(w_ptr + d * WIDTH + i, mask=mask, other=0.0).to(tl.float32)
        acc += x * w
    y = acc * tl.sigmoid(acc)
    tl.store(y_ptr + (batch * T + t) * D + d, y.to(y_ptr.dtype.element_ty), mask=mask)


def causal_conv1d(x, weight, bias):
    B, T, D = x.shape
    y = torch.empty_like(x)
    BLOCK_D = 256
    grid = (T, triton.cdiv(D, BLOCK_D), B)
    causal_conv1d_kernel[grid](x, weight, bias, y, T, D, WIDTH=weight.shape[1], BLOCK_D=BLOCK_D)
    return y


if __name__ == "__main__":
    x = torch.randn(4, 4096, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, 4, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    causal_conv1d(x, weight, bias)
