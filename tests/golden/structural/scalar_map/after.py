import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, s_ptr, first, last, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(s_ptr + row)
    for start in tl.range(first, last, BLOCK):
        col = start + tl.arange(0, BLOCK)
        inside = col < last
        at = x_ptr + row * SIZE + col
        tl.store(at, tl.load(at, mask=inside, other=0) * s, mask=inside)


def scale_rows(x, s, first, last):
    scale_rows_kernel[(x.shape[0],)](x, s, first, last, SIZE=x.shape[1], BLOCK=128)
    return x


def run():
    return scale_rows(torch.randn(4, 100), torch.randn(4), 3, 90)
