import torch
import triton
import triton.language as tl


@triton.jit
def shares_kernel(x_ptr, v_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Rows of v weighted by shares of x; zero where there is none."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(0, n):
        total += tl.load(x_ptr + rows * n + i)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(0, n):
        x = tl.load(x_ptr + rows * n + i)
        acc += x * tl.load(v_ptr + i)
    acc = tl.where(n > 0, acc / total, 0.0)
    tl.store(o_ptr + rows, acc)


def shares(x, v):
    rows, n = x.shape
    out = torch.empty(rows, device=x.device)
    shares_kernel[(rows // 16,)](x, v, out, n, BLOCK=16)
    return out


def run():
    return shares(torch.rand(32, 9), torch.randn(9)), shares(torch.rand(16, 0), torch.randn(0))
