"""y = clamp(alpha * x + beta, -limit, limit), elementwise, for fp32 and bf16."""

import torch
import triton
import triton.language as tl


@triton.jit
def affine_clamp_kernel(x_ptr, y_ptr, n, alpha, beta, limit, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * BLOCK
    idx = base + tl.arange(0, BLOCK)
    keep = idx < n
    x = tl.load(x_ptr + idx, mask=keep, other=0.0).to(tl.float32)
    y = x * alpha + beta
    y = tl.where(y < -limit, -limit, y)
    y = tl.where(y > limit, limit, y)
    tl.store(y_ptr + idx, y, mask=keep)


def affine_clamp(x, alpha, beta=0.0, limit=6.0, out=None):
    x = x.contiguous()
    y = torch.empty_like(x) if out is None else out
    n = x.numel()
    affine_clamp_kernel[(triton.cdiv(n, 512),)](x, y, n, alpha, beta, limit, BLOCK=512, num_warps=4)
    return y


def main():
    x = torch.randn(4096, 1000, device="cuda")
    affine_clamp(x, 0.5)
    h = torch.randn(1 << 20, device="cuda", dtype=torch.bfloat16)
    affine_clamp(h, 1.75, beta=0.25)
    affine_clamp(x, 0.5, 0.125, out=torch.zeros_like(x))


if __name__ == "__main__":
    main()
