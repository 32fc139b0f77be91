# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def mask_fill_kernel(x_ptr, m_ptr, y_ptr, n, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = tl.load(m_ptr + i, mask=i < n).to(tl.int1)
    tl.store(y_ptr + i, tl.where(m, value, tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def gather_kernel(x_ptr, i_ptr, y_ptr, n, width, BLOCK: tl.constexpr):
    row = tl.load(i_ptr + tl.program_id(0))
    j = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0) * width + j, tl.load(x_ptr + row * width + j, mask=j < width), mask=j < width)


def mask_fill(x, mask, value, **options):
    y = torch.empty_like(x)
    kwargs = dict(x_ptr=x, m_ptr=mask, y_ptr=y, n=x.numel(), value=value, BLOCK=128)
    mask_fill_kernel[(triton.cdiv(x.numel(), 128),)](**kwargs, **options)
    return y


def gather(x, index):
    y = x.new_empty(index.numel(), x.shape[1])
    gather_kernel[(index.numel(),)](x, index, y, index.numel(), width=x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


if __name__ == "__main__":
    x = torch.randn(20, 24, device="cuda")
    mask_fill(x, x > 0, -1.0, num_warps=2)
    gather(x, torch.randint(0, 20, (9,), device="cuda"))
