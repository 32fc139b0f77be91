# ruff: noqa: N803 - constexprs are written in capitals
"""Launches of the shapes that real code has: tuned, heuristic, from a factory, in autograd, with odd grids."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512}, num_warps=8)], key=["n"]
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, x + 1, mask=offsets < n)


def add_one_tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n_cols"])})
@triton.jit
def heuristic_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def row_sums(x):
    out = torch.empty(x.shape[0], device=x.device)
    heuristic_kernel[[x.shape[0]]](x, out, x.shape[1], num_warps=2)
    return out


def make_kernel(factor):
    @triton.jit
    def scaled_kernel(x_ptr, out_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        tl.store(out_ptr + offsets, x * FACTOR, mask=offsets < n)

    def launch(x):
        out = torch.empty_like(x)
        scaled_kernel[triton.cdiv(x.numel(), 64), 1](x, out, x.numel(), factor, BLOCK=64)
        return out

    return launch


def times_three(x):
    return make_kernel(3)(x)


class AddOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return add_one_tuned(x)

    @staticmethod
    def backward(ctx, grad):
        assert grad.is_cuda
        return times_three(grad)


def scale_in_place(x, indices, factor=2.0):
    _scale_kernel[(indices.numel(),)](x, indices, factor)


@triton.jit
def _scale_kernel(x_ptr, index_ptr, factor):
    at = tl.load(index_ptr + tl.program_id(0))
    tl.store(x_ptr + at, tl.load(x_ptr + at) * factor)


def test_everything():
    x = torch.randn(1000, device="cuda")
    for _ in range(3):
        add_one_tuned(x)
    row_sums(torch.randn(4, 100, device="cuda"))
    times_three(x)
    scale_in_place(x, torch.tensor([5, 3, 999], device="cuda", dtype=torch.int32), factor=3.0)
    torch.testing.assert_close(times_three(x), x * 3)


def test_autograd():
    x = torch.randn(64, device="cuda", requires_grad=True)
    AddOne.apply(x).sum().backward()
    assert x.grad.is_cuda


def test_inline():
    x = torch.randn(100, device="cuda")
    out = torch.empty_like(x)
    tuned_kernel[(1,)](x, out, 100)
    return out


def test_fails():
    add_one_tuned(torch.randn(8, device="cuda"))
    raise ValueError("no more")


def test_broken():
    raise ValueError("never launched")


def needs_arguments(x, y):
    return x + y
