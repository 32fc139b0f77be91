# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x * x, mask=i < n)


@triton.jit
def root_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.sqrt(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@torch.compile(fullgraph=True, mode="max-autotune")
def square(x):
    y = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y + 1


@torch.compiler.disable
def root(x):
    y = torch.empty_like(x)
    root_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


class Model(torch.nn.Module):
    def forward(self, x):
        return root(square(x))


if __name__ == "__main__":
    model = torch.compile(Model().cuda())
    model(torch.rand(77, device="cuda"))
    other = Model()
    other.compile()
    other(torch.rand(33, device="cuda"))
