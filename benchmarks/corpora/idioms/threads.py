# kernels: 2
import torch
import triton
import triton.language as tl

import threading
from concurrent.futures import ThreadPoolExecutor


@triton.jit
def plus_kernel(x_ptr, y_ptr, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + by, mask=i < n)


@triton.jit
def times_kernel(x_ptr, y_ptr, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * by, mask=i < n)


def plus(x, by):
    assert x.is_cuda
    y = torch.empty_like(x)
    plus_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), by, BLOCK=64)
    return y


def times(x, by):
    y = torch.empty_like(x)
    times_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), by, BLOCK=64)
    return y


if __name__ == "__main__":
    x = torch.randn(100, device="cuda")
    worker = threading.Thread(target=plus, args=(x, 2.0))
    worker.start()
    worker.join()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda by: times(x, by), [1.0, 2.0]))
