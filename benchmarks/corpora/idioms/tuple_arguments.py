# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def weighted_sum_kernel(pointers, weights, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(pointers[0] + i, mask=i < n) * weights[0]
    total += tl.load(pointers[1] + i, mask=i < n) * weights[1]
    tl.store(y_ptr + i, total, mask=i < n)


@triton.jit
def strided_copy_kernel(x_ptr, y_ptr, strides, shape, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (i[:, None] < shape[0]) & (j[None, :] < shape[1])
    x = tl.load(x_ptr + i[:, None] * strides[0] + j[None, :] * strides[1], mask=mask)
    tl.store(y_ptr + i[:, None] * shape[1] + j[None, :], x, mask=mask)


def weighted_sum(a, b):
    y = torch.empty_like(a)
    weighted_sum_kernel[(triton.cdiv(a.numel(), 64),)]((a, b), (0.25, 0.75), y, a.numel(), BLOCK=64)
    return y


def strided_copy(x):
    y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    strided_copy_kernel[grid](x, y, x.stride(), tuple(x.shape), BM=16, BN=32)
    return y


if __name__ == "__main__":
    a = torch.randn(30, 40, device="cuda")
    weighted_sum(a, a + 1)
    strided_copy(a.t())
