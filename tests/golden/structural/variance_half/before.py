import torch
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, var_ptr, n, stride, BLOCK: tl.constexpr):
    """Mean and variance of every row."""
    row = tl.program_id(0)
    # of the row
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        total += tl.sum(tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0), axis=0)
    mean = total / n
    squares = 0.0  # never negative
    # from the mean, not from zero
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=0.0)
        # masked elements count for nothing
        apart = tl.where(cols < n, x - mean, 0.0)
        squares += tl.sum(apart * apart, axis=0)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, squares / n)


def moments(x, block=64):
    rows, n = x.shape
    mean = torch.empty(rows, device=x.device, dtype=torch.float32)
    var = torch.empty(rows, device=x.device, dtype=torch.float32)
    moments_kernel[(rows,)](x, mean, var, n, x.stride(0), BLOCK=block)
    return mean, var


def run():
    return moments(torch.randint(-4, 5, (6, 300)).half())
