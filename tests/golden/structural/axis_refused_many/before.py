import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, s_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(s_ptr + row)
    # tile after tile
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N)
        tl.store(o_ptr + row * N + cols, x * s, mask=cols < N)  # no tile needs another


def scale(x, s):
    M, N = x.shape
    o = torch.empty_like(x)
    scale_kernel[(M,)](x, s, o, N, BLOCK=16)
    return o


def run():
    return scale(torch.randn(3, 70), torch.randn(3))
