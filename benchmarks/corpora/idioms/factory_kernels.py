# kernels: 2
import torch
import triton
import triton.language as tl


def make_unary(expression):
    @triton.jit
    def unary_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, expression(tl.load(x_ptr + i, mask=i < n)), mask=i < n)

    def launch(x):
        y = torch.empty_like(x)
        unary_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y

    return launch


@triton.jit
def third_power(x):
    return x * x * x


@triton.jit
def total_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr, tl.sum(total, 0))


cube = make_unary(third_power)


def total(x):
    y = torch.empty((), device=x.device)
    total_kernel[(1,)](x, y, x.numel(), BLOCK=256)
    return y


if __name__ == "__main__":
    total(cube(torch.randn(1000, device="cuda")))
