# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def tanh_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, 2 * tl.sigmoid(2 * x) - 1, mask=i < n)


@triton.jit
def softplus_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, tl.where(x > 20, x, tl.log(1 + tl.exp(x))), mask=i < n)


def elementwise(kernel, x, block=128):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


def both(x, smooth):
    return elementwise(softplus_kernel if smooth else tanh_kernel, x)


if __name__ == "__main__":
    x = torch.randn(444, device="cuda")
    both(x, True)
    both(x, False)
