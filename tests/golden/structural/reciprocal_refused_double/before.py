import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, o_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    scale = 0x1 / tl.sqrt(tl.sum(y * y, axis=0) + 1e-5)
    tl.store(o_ptr + row * n_cols + cols, y * scale, mask=inside)


def softmax(x):
    rows, n_cols = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](x, out, n_cols, BLOCK=64)
    return out


def run():
    return softmax(torch.randn(4, 50))
