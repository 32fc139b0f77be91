import torch
import triton
import triton.language as tl


@triton.jit
def add_row_kernel(x, bias, o, heads, D: tl.constexpr, tokens, ROWS: tl.constexpr):
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    token_mask = token < tokens
    head = tl.program_id(1)
    c = tl.arange(0, D)
    at = (token * heads + head) * D
    tl.store(o + at + c, tl.load(x + at + c, mask=token_mask) + tl.load(bias + head * D + c), mask=token_mask)


def add_row(x, bias):
    tokens, heads, width = x.shape
    out = torch.empty_like(x)
    add_row_kernel[triton.cdiv(tokens, 64), heads](x, bias, out, heads, width, tokens=tokens, ROWS=64)
    return out


def run():
    return add_row(torch.randn(21, 3, 32), torch.randn(3, 32))
