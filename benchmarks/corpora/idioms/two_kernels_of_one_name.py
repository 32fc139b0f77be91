# kernels: 2
import torch
import triton
import triton.language as tl


if torch.cuda.get_device_capability()[0] >= 8:

    @triton.jit
    def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

else:

    @triton.jit
    def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


def make():
    @triton.jit
    def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + n - 1 - i, mask=i < n), mask=i < n)

    return copy_kernel


backwards_kernel = make()


def copy(x, backwards=False):
    y = torch.empty_like(x)
    kernel = backwards_kernel if backwards else copy_kernel
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


if __name__ == "__main__":
    copy(torch.randn(99, device="cuda"))
    copy(torch.randn(99, device="cuda"), backwards=True)
