import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, bins_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    old = tl.atomic_add(bins_ptr + x, 1, mask=inside)
    tl.atomic_max(sums_ptr + x, old, mask=inside, sem="relaxed")


def histogram(x):
    bins = torch.zeros(8, device=x.device, dtype=torch.int32)
    largest = torch.zeros(8, device=x.device, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(x.numel(), 128),)](x, bins, largest, x.numel(), BLOCK=128)
    return bins, largest


def run():
    return histogram(torch.randint(0, 8, (1000,), dtype=torch.int32))
