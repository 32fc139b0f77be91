"""A 3×3 convolution, channels last, as one matrix product."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv_kernel(
    x_ptr, w_ptr, y_ptr, N, H, W, C, K,
    R: tl.constexpr, S: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = m // (H * W)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Every tap of the filter.
    for r in range(R):
        # One row of it.
        for s in range(S):  # from left to right
            h = (m // W) % H + r - R // 2
            w = m % W + s - S // 2
            inside = (image < N) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            for start in range(0, C, BLOCK_C):
                c = start + tl.arange(0, BLOCK_C)
                at = ((image * H + h) * W + w)[:, None] * C + c[None, :]
                x = tl.load(x_ptr + at, mask=inside[:, None] & (c[None, :] < C), other=0.0)
                taps = k[None, :] * (R * S * C) + (r * S + s) * C + c[:, None]
                weight = tl.load(w_ptr + taps, mask=(k[None, :] < K) & (c[:, None] < C), other=0.0)
                acc += tl.dot(x, weight, input_precision="ieee")
    mask = (m[:, None] < N * H * W) & (k[None, :] < K)
    tl.store(y_ptr + m[:, None] * K + k[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


def conv(x, weight):
    N, H, W, C = x.shape
    K, R, S, _ = weight.shape
    y = torch.empty((N, H, W, K), device=x.device, dtype=x.dtype)
    grid = lambda META: (triton.cdiv(N * H * W, META["BLOCK_M"]), triton.cdiv(K, META["BLOCK_N"]))
    conv_kernel[grid](x, weight, y, N, H, W, C, K, R=R, S=S, BLOCK_M=16, BLOCK_N=16, BLOCK_C=16)
    return y


def run():
    return conv(torch.randn(2, 5, 4, 20, dtype=torch.float16), torch.randn(18, 3, 3, 20, dtype=torch.float16))
