import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, s_ptr, first, last, SIZE: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(s_ptr + row)
    for col in tl.range(first, last):
        at = x_ptr + row * SIZE + col
        tl.store(at, tl.load(at - 1) * s)


def scale_rows(x, s, first, last):
    scale_rows_kernel[(x.shape[0],)](x, s, first, last, SIZE=x.shape[1])
    return x


def run():
    return scale_rows(torch.randn(4, 100), torch.randn(4), 3, 90)
