# ruff: noqa: N803, PLR0917 - written as people write kernels
"""Kernels and host functions that the traced programs launch; sizes tell their launches apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, seed, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, pair, nothing, BLOCK: tl.constexpr):
    at = tl.load(index_ptr + tl.program_id(0))
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + at))


KERNELS = {"add": add_kernel}


class Holder:
    launch_of = add_kernel


def add(x, y=None, seed=0, scale=1.0):
    x = x.contiguous()  # what the function was called with is not what it holds when it launches
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 32),)](x, x if y is None else y, out, x.numel(), seed, scale, BLOCK=32)
    return out


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def gather(x, index):
    out = torch.empty(index.numel(), device=x.device)
    gather_kernel[index.numel(), 1](x, index, out, (x, 3), None, BLOCK=1)
    return out


def oddly(x):
    """Launch as real projects do: from a dict, an attribute, a stored launcher, `run`, a list for a grid."""
    out = torch.empty_like(x)
    n = x.numel()
    KERNELS["add"][(1,)](x, x, out, n, 0, 1.0, BLOCK=16)
    Holder.launch_of[[2]](x, x, out, n, 0, 1.0, BLOCK=16)
    launcher = add_kernel[(3,)]
    launcher(x, x, out, n, 0, 1.0, BLOCK=16)
    add_kernel.run(x, x, out, n, 0, 1.0, grid=(4,), warmup=False, BLOCK=16)
    add_kernel[5, 1, 1](x, x, out_ptr=out, n=n, seed=0, scale=1.0, BLOCK=16, num_warps=2)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return add(x)

    @staticmethod
    def backward(ctx, grad):
        return add(grad, seed=77)
