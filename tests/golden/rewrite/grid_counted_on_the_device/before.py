import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, first_ptr, n, BLOCK: tl.constexpr):
    first = tl.load(first_ptr + tl.program_id(0))
    offsets = first + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def places(n, block, device):
    count = torch.tensor((n + block - 1) // block, device=device)
    return torch.arange(0, int(count.item()) * block, block, device=device), None


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    first, _ = places(n, 64, x.device)
    programs = first.shape[0]
    add_kernel[(programs,)](x, y, out, first, n, BLOCK=64)
    return out
