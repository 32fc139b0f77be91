"""SwiGLU, forward: silu of the gate half times the up half of each row of a fused projection."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=2),
        triton.Config({"BLOCK": 256}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=8),
    ],
    key=["width"],
)
@triton.jit
def swiglu_kernel(out_ptr, x_ptr, width, limit, stride_out, stride_x, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    gate = tl.load(x_ptr + row * stride_x + cols, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * stride_x + width + cols, mask=inside, other=0.0).to(tl.float32)
    gate = tl.where(gate > limit, limit, gate)
    silu = gate * tl.sigmoid(gate)
    tl.store(out_ptr + row * stride_out + cols, (silu * up).to(out_ptr.dtype.element_ty), mask=inside)


def swiglu(x, limit=1.0e6):
    """silu(min(gate, limit)) · up.

    Args:
        x: (rows, 2 · width): gates, then ups; rows may be apart.
        limit: the largest gate that counts.

    Returns:
        (rows, width) in the type of `x`.
    """
    rows, width = x.shape[0], x.shape[1] // 2
    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)

    def grid(meta):
        return (rows, triton.cdiv(width, meta["BLOCK"]))

    swiglu_kernel[grid](out, x, width, limit, out.stride(0), x.stride(0))
    return out


if __name__ == "__main__":
    swiglu(torch.randn((512, 2 * 2816), device="cuda", dtype=torch.float16))
    swiglu(torch.randn((512, 2 * 2816), device="cuda", dtype=torch.bfloat16))
    swiglu(torch.randn((512, 2 * 2816), device="cuda"), limit=7.0)
