import torch
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, var_ptr, n, stride, BLOCK: tl.constexpr):
    """Mean and variance of every row."""
    row = tl.program_id(0)
    # of the row
    total_lanes = tl.zeros((BLOCK,), dtype=tl.float32)
    # never negative
    squares_lanes = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        value = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
        total_lanes += value
        seen = start // BLOCK
        # masked elements count for nothing
        difference = (seen + 1) * value.to(tl.float32) - total_lanes
        squares_lanes += tl.where(mask, difference * difference / tl.maximum(seen * (seen + 1.0), 1.0), 0.0)
    total = tl.sum(total_lanes, axis=0)
    mean = total / n
    # from the mean, not from zero
    counts = (n + BLOCK - 1 - tl.arange(0, BLOCK)) // BLOCK
    difference = total_lanes - counts * mean
    squares_lanes += tl.where(counts > 0, difference * difference / tl.maximum(counts, 1), 0.0)
    squares = tl.sum(squares_lanes, axis=0)
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
