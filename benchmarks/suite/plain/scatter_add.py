"""Adds messages of edges to the nodes they point to: rows are gathered by one index and added by another."""

import torch
import triton
import triton.language as tl


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["dim"])})
@triton.jit
def scatter_add_kernel(x_ptr, source_ptr, target_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    edge = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    source = tl.load(source_ptr + edge)
    target = tl.load(target_ptr + edge)
    x = tl.load(x_ptr + source * dim + c, mask=c < dim, other=0.0)
    tl.atomic_add(out_ptr + target * dim + c, x, mask=c < dim)


def scatter_add(x, source, target):
    dim = x.shape[1]
    edges = source.numel()
    out = torch.zeros_like(x)
    scatter_add_kernel[(edges,)](x, source, target, out, dim)
    return out


if __name__ == "__main__":
    x = torch.randn(100000, 128, device="cuda")
    source = torch.randint(0, 100000, (1000000,), device="cuda")
    target = torch.randint(0, 100000, (1000000,), device="cuda")
    scatter_add(x, source, target)
