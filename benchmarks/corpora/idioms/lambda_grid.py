# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))
    tl.store(y_ptr + i, y, mask=i < n)


@triton.jit
def clamp_kernel(x_ptr, y_ptr, low, high, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, tl.minimum(tl.maximum(x, low), high), mask=i < n)


def gelu(x):
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    gelu_kernel[grid](x, y, x.numel(), BLOCK=128)
    return y


def clamp(x, low, high):
    y = torch.empty_like(x)
    clamp_kernel[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](x, y, low, high, x.numel(), BLOCK=256, num_warps=2)
    return y


def main():
    x = torch.randn(33, 17).cuda()
    gelu(x)
    clamp(x, -1.0, 1.0)


if __name__ == "__main__":
    main()
