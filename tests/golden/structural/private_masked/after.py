import torch
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    own_out = 0.0
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = tl.cast(tile, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        own_out += tl.where(tile < 7, tl.sum(x, axis=0) / n, 0)
    tl.atomic_add(out_ptr, own_out)


def mean(x):
    out = torch.zeros(1, device=x.device, dtype=torch.float32)
    n = x.numel()
    mean_kernel[(triton.cdiv(triton.cdiv(n, 64), 128),)](x, out, n, 64)
    return out


def run():
    return mean(torch.rand(3000))
