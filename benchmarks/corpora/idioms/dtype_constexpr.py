# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def cast_kernel(x_ptr, y_ptr, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n).to(DTYPE), mask=i < n)


@triton.jit
def accumulate_kernel(x_ptr, y_ptr, M, N, ACC: tl.constexpr, BLOCK: tl.constexpr):
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], dtype=ACC)
    for i in range(M):
        acc += tl.load(x_ptr + i * N + j, mask=j < N, other=0.0).to(ACC)
    tl.store(y_ptr + j, acc, mask=j < N)


TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def cast(x, dtype):
    y = torch.empty_like(x, dtype=dtype)
    cast_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), DTYPE=TYPES[dtype], BLOCK=64)
    return y


def accumulate(x):
    y = torch.empty(x.shape[1], device=x.device)
    accumulate_kernel[(triton.cdiv(x.shape[1], 32),)](x, y, *x.shape, ACC=tl.float32, BLOCK=32)
    return y


if __name__ == "__main__":
    x = torch.randn(10, 50, device="cuda")
    for dtype in TYPES:
        cast(x, dtype)
    accumulate(x.half())
