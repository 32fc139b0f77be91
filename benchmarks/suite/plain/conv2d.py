"""3×3 convolution of images stored [batch, height, width, channels] as one matrix product (implicit GEMM)."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(
    x_ptr, w_ptr, y_ptr, N, H, W, C, K, P, Q,
    R: tl.constexpr, S: tl.constexpr, PAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = m // (P * Q)
    p = (m // Q) % P
    q = m % Q
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for r in range(R):
        for s in range(S):
            h = p + r - PAD
            w = q + s - PAD
            inside = (image < N) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            for start in range(0, C, BLOCK_C):
                c = start + tl.arange(0, BLOCK_C)
                x_at = ((image * H + h) * W + w)[:, None] * C + c[None, :]
                x = tl.load(x_ptr + x_at, mask=inside[:, None] & (c[None, :] < C), other=0.0)
                w_at = k[None, :] * (R * S * C) + (r * S + s) * C + c[:, None]
                weight = tl.load(w_ptr + w_at, mask=(k[None, :] < K) & (c[:, None] < C), other=0.0)
                acc += tl.dot(x, weight)
    mask = (m[:, None] < N * P * Q) & (k[None, :] < K)
    tl.store(y_ptr + m[:, None] * K + k[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)


def conv2d(x, weight):
    N, H, W, C = x.shape
    K, R, S, _ = weight.shape
    pad = R // 2
    P, Q = H + 2 * pad - R + 1, W + 2 * pad - S + 1
    y = torch.empty((N, P, Q, K), device=x.device, dtype=x.dtype)
    grid = lambda META: (triton.cdiv(N * P * Q, META["BLOCK_M"]), triton.cdiv(K, META["BLOCK_N"]))
    with torch.cuda.device(x.device):
        conv2d_kernel[grid](x, weight, y, N, H, W, C, K, P, Q, R=R, S=S, PAD=pad, BLOCK_M=64, BLOCK_N=64, BLOCK_C=32)
    return y


if __name__ == "__main__":
    x = torch.randn(32, 56, 56, 128, device="cuda", dtype=torch.float16)
    weight = torch.randn(128, 3, 3, 128, device="cuda", dtype=torch.float16)
    conv2d(x, weight)
