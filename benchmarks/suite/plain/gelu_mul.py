"""GELU of one half of a gated MLP times the other half."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_mul_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608 * (gate + 0.044715 * gate * gate * gate)
    gelu = gate * tl.sigmoid(2.0 * inner)
    tl.store(out_ptr + offsets, (gelu * up).to(out_ptr.dtype.element_ty), mask=mask)


def gelu_mul(gate, up):
    out = torch.empty_like(gate)
    n = out.numel()
    gelu_mul_kernel[(triton.cdiv(n, 256),)](gate, up, out, n, BLOCK=256)
    return out


if __name__ == "__main__":
    gate = torch.randn(8192, 11008, device="cuda", dtype=torch.bfloat16)
    up = torch.randn_like(gate)
    gelu_mul(gate, up)
