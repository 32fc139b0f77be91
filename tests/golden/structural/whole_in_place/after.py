import torch
import triton
import triton.language as tl


@triton.jit
def centre_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Subtract each row's mean in place, then its mean magnitude."""
    row = tl.program_id(0)
    x_ptr += row * n
    total = tl.zeros((BLOCK,), tl.float32)
    # The mean.
    at = tl.arange(0, BLOCK)
    total += tl.load(x_ptr + at, mask=at < n, other=0.0)
    mean = tl.sum(total, axis=0) / n
    # What is left over.
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(x_ptr + at, x - mean, mask=at < n)
    size = tl.zeros((BLOCK,), tl.float32)
    # Read again: it has changed.
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    size += tl.abs(x)
    tl.store(x_ptr + n - 1, tl.sum(size, axis=0) / n)


def centre(x):
    rows, n = x.shape
    BLOCK = triton.next_power_of_2(max(n, 1))
    centre_kernel[(rows,)](x, n, BLOCK)
    return x


def run():
    return centre(torch.randn(6, 700))
