# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def blend_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr, num_warps: tl.constexpr, num_stages: tl.constexpr):
    pid = tl.program_id(0)
    for step in tl.range(0, 2, num_stages=num_stages):
        i = (pid * 2 + step) * BLOCK + tl.arange(0, BLOCK)
        a, b = tl.load(a_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)
        tl.store(y_ptr + i, (a + b) / num_warps, mask=i < n)


def blend(a, b):
    y = torch.empty_like(a)
    blend_kernel[(triton.cdiv(a.numel(), 128),)](a, b, y, a.numel(), BLOCK=64, num_warps=8, num_stages=2)
    return y


if __name__ == "__main__":
    blend(torch.randn(500, device="cuda"), torch.randn(500, device="cuda"))
