"""Gradients of RMS norm in one kernel; the gradient of the weight is added up with atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_backward_kernel(dy_ptr, x_ptr, w_ptr, dx_ptr, dw_ptr, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    xhat = x * rstd
    wdy = w * dy
    dx = (wdy - xhat * (tl.sum(wdy * xhat, axis=0) / N)) * rstd
    tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.atomic_add(dw_ptr + cols, dy * xhat, mask=mask)


def rms_norm_backward(dy, x, weight, eps=1e-6):
    M, N = x.shape
    dx = torch.empty_like(x)
    dw = torch.zeros(N, device=x.device, dtype=torch.float32)
    block = triton.next_power_of_2(N)
    num_warps = 8 if block >= 4096 else 4
    rms_norm_backward_kernel[(M,)](dy, x, weight, dx, dw, N, eps, BLOCK_N=block, num_warps=num_warps)
    return dx, dw


if __name__ == "__main__":
    x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn_like(x)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    rms_norm_backward(dy, x, weight)
