# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.load(a_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def outer_kernel(a_ptr, b_ptr, c_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    a = tl.load(a_ptr + i, mask=i < m)
    b = tl.load(b_ptr + j, mask=j < n)
    tl.store(c_ptr + i[:, None] * n + j[None, :], a[:, None] * b[None, :], mask=(i[:, None] < m) & (j[None, :] < n))


def one_dimensional(n):
    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    return grid


def add(a, b):
    c = torch.empty_like(a)
    add_kernel[one_dimensional(a.numel())](a, b, c, a.numel(), BLOCK=64)
    return c


def outer(a, b):
    c = a.new_empty(a.shape[0], b.shape[0])

    def grid(meta):
        return triton.cdiv(a.shape[0], meta["BM"]), triton.cdiv(b.shape[0], meta["BN"])

    outer_kernel[grid](a, b, c, a.shape[0], b.shape[0], BM=16, BN=32)
    return c


if __name__ == "__main__":
    x, y = torch.rand(100, device="cuda"), torch.rand(100, device="cuda")
    add(x, y)
    outer(x, y[:37])
