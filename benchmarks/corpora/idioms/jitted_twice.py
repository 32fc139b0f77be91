# kernels: 1
import torch
import triton
import triton.language as tl


def _affine(x_ptr, y_ptr, n, scale, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * scale + shift, mask=i < n)


affine_kernel = triton.jit(_affine)
tuned_affine_kernel = triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 64})], key=["n"])(triton.jit(_affine))


def affine(x, tuned):
    y = torch.empty_like(x)
    if tuned:
        tuned_affine_kernel[lambda m: (triton.cdiv(x.numel(), m["BLOCK"]),)](x, y, x.numel(), 2.0, 1.0)
    else:
        affine_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), 2.0, 1.0, BLOCK=32)
    return y


if __name__ == "__main__":
    affine(torch.randn(200, device="cuda"), True)
    affine(torch.randn(200, device="cuda"), False)
