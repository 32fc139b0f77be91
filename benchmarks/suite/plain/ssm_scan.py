"""Selective state-space scan (Mamba): every channel keeps a small state and goes through time step by step."""

import torch
import triton
import triton.language as tl


@triton.jit
def ssm_scan_kernel(u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, T, D, STATE: tl.constexpr, BLOCK_D: tl.constexpr):
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    batch = tl.program_id(1)
    n = tl.arange(0, STATE)
    mask = d < D
    a = tl.load(a_ptr + d[:, None] * STATE + n[None, :], mask=mask[:, None], other=0.0)
    h = tl.zeros((BLOCK_D, STATE), dtype=tl.float32)
    for t in range(T):
        at = (batch * T + t) * D + d
        u = tl.load(u_ptr + at, mask=mask, other=0.0).to(tl.float32)
        delta = tl.load(delta_ptr + at, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + (batch * T + t) * STATE + n).to(tl.float32)
        c = tl.load(c_ptr + (batch * T + t) * STATE + n).to(tl.float32)
        h = tl.exp(delta[:, None] * a) * h + (delta * u)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], axis=1)
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


def ssm_scan(u, delta, a, b, c):
    B, T, D = u.shape
    y = torch.empty_like(u)
    grid = lambda META: (triton.cdiv(D, META["BLOCK_D"]), B)
    ssm_scan_kernel[grid](u, delta, a, b, c, y, T, D, STATE=a.shape[1], BLOCK_D=64)
    return y


if __name__ == "__main__":
    u = torch.randn(4, 1024, 4096, device="cuda", dtype=torch.bfloat16)
    delta = torch.rand(4, 1024, 4096, device="cuda", dtype=torch.bfloat16) * 0.1
    a = -torch.rand(4096, 16, device="cuda") * 4 - 0.5
    b = torch.randn(4, 1024, 16, device="cuda", dtype=torch.bfloat16)
    c = torch.randn(4, 1024, 16, device="cuda", dtype=torch.bfloat16)
    ssm_scan(u, delta, a, b, c)
