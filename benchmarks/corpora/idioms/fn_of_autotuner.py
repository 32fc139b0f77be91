# kernels: 1
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (32, 64)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def inverse_kernel(x_ptr, y_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + i, 1 / tl.load(x_ptr + i))
    else:
        tl.store(y_ptr + i, 1 / tl.load(x_ptr + i, mask=i < n, other=1.0), mask=i < n)


def inverse(x):
    y = torch.empty_like(x)
    inverse_kernel.fn[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def inverse_plain(x):
    y = torch.empty_like(x)
    inverse_kernel.fn.fn[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), EVEN=False, BLOCK=128)
    return y


if __name__ == "__main__":
    inverse(torch.rand(128, device="cuda") + 1)
    inverse_plain(torch.rand(100, device="cuda") + 1)
