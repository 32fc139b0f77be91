"""Dropout with a mask drawn from a seed and the offset of the element, fused with a residual; the mask is kept."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_add_kernel(
    out_ptr, kept_ptr, x_ptr, residual_ptr, p, seed, n_cols, stride_out, stride_x, stride_residual, BLOCK: tl.constexpr
):
    """Write residual + x · kept / (1 − p); the offset of element (row, col) is row · n_cols + col."""
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=inside, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * stride_residual + cols, mask=inside, other=0.0).to(tl.float32)
    offsets = row * n_cols + cols
    kept = tl.rand(seed, offsets) >= p
    scaled = tl.where(kept, x / (1.0 - p), 0.0)
    tl.store(out_ptr + row * stride_out + cols, scaled + residual, mask=inside)
    tl.store(kept_ptr + offsets, kept.to(tl.int8), mask=inside)


def dropout_add(x, residual, p, seed):
    """Drop elements of `x` with probability `p` and add the residual.

    Args:
        x: (rows, cols), rows may be apart.
        residual: as `x`.
        p: in [0, 1).
        seed: of the mask; the same seed drops the same elements.

    Returns:
        The sum, and the mask as int8 (1: kept).
    """
    rows, cols = x.shape
    out = torch.empty((rows, cols), dtype=x.dtype, device=x.device)
    kept = torch.empty((rows, cols), dtype=torch.int8, device=x.device)
    BLOCK = 256
    grid = (rows, triton.cdiv(cols, BLOCK))
    dropout_add_kernel[grid](
        out, kept, x, residual, p, seed, cols, out.stride(0), x.stride(0), residual.stride(0), BLOCK=BLOCK, num_warps=4
    )
    return out, kept


if __name__ == "__main__":
    x = torch.randn((1024, 1024), device="cuda", dtype=torch.float16)
    dropout_add(x, torch.randn_like(x), 0.1, 1234)
    dropout_add(x.float(), torch.randn_like(x.float()), 0.5, 99)
