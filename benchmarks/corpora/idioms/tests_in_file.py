# kernels: 2
import torch
import triton
import triton.language as tl

import pytest


@triton.jit
def l1_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(a_ptr + i, mask=i < n, other=0.0) - tl.load(b_ptr + i, mask=i < n, other=0.0))
    tl.store(y_ptr + tl.program_id(0), tl.sum(d, 0))


@triton.jit
def l2_kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(a_ptr + i, mask=i < n, other=0.0) - tl.load(b_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(d * d, 0))


def distance(a, b, p):
    blocks = triton.cdiv(a.numel(), 128)
    y = torch.empty(blocks, device=a.device)
    (l1_kernel if p == 1 else l2_kernel)[(blocks,)](a, b, y, a.numel(), BLOCK=128)
    return y.sum()


@pytest.mark.parametrize("p", [1, 2])
def test_distance(p):
    a, b = torch.randn(300, device="cuda"), torch.randn(300, device="cuda")
    torch.testing.assert_close(distance(a, b, p), (a - b).abs().pow(p).sum())


if __name__ == "__main__":
    for p in (1, 2):
        test_distance(p)
