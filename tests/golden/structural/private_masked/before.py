import torch
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0) / n, mask=tl.program_id(0) < 7)


def mean(x):
    out = torch.zeros(1, device=x.device, dtype=torch.float32)
    n = x.numel()
    mean_kernel[(triton.cdiv(n, 64),)](x, out, n, 64)
    return out


def run():
    return mean(torch.rand(3000))
