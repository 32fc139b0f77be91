import torch
import triton
import triton.language as tl


@triton.jit
def add_row_kernel(x, bias, o, heads, D: tl.constexpr):
    token = tl.program_id(0)
    head = tl.program_id(1)
    c = tl.arange(0, D)
    at = (token * heads + head) * D
    tl.store(o + at + c, tl.load(x + at + c) + tl.load(bias + head * D + c))


def add_row(x, bias):
    tokens, heads, width = x.shape
    out = torch.empty_like(x)
    add_row_kernel[tokens, heads](x, bias, out, heads, width)
    return out


def run():
    return add_row(torch.randn(21, 3, 32), torch.randn(3, 32))
