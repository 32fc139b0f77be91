"""Cumulative sums along rows, block by block with a carry; whole numbers come out as int64."""

import torch
import triton
import triton.language as tl


@triton.jit
def _cumsum_kernel(x_ptr, out_ptr, n_cols, x_stride, out_stride, EXCLUSIVE: tl.constexpr, ACC: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    offsets = tl.arange(0, BLOCK)
    carry = tl.zeros((1,), dtype=ACC)
    for start in range(0, n_cols, BLOCK):
        mask = start + offsets < n_cols
        x = tl.load(x_ptr + start + offsets, mask=mask, other=0).to(ACC)
        scanned = tl.cumsum(x, axis=0) + carry
        if EXCLUSIVE:
            tl.store(out_ptr + start + offsets, scanned - x, mask=mask)
        else:
            tl.store(out_ptr + start + offsets, scanned, mask=mask)
        carry += tl.sum(x, axis=0)


def cumsum_rows(x: torch.Tensor, exclusive: bool = False) -> torch.Tensor:
    assert x.dim() == 2
    floating = x.dtype.is_floating_point
    out = torch.empty(x.shape, device=x.device, dtype=torch.float32 if floating else torch.int64)
    if not x.is_contiguous() and x.stride(1) != 1:
        x = x.contiguous()
    rows, cols = x.shape
    _cumsum_kernel[(rows,)](
        x, out, cols, x.stride(0), out.stride(0), EXCLUSIVE=exclusive, ACC=tl.float32 if floating else tl.int64,
        BLOCK=512, num_warps=4,
    )  # fmt: skip
    return out


if __name__ == "__main__":
    weights = torch.rand(256, 5000, device="cuda")
    cumsum_rows(weights)
    lengths = torch.randint(0, 4096, (64, 2048), device="cuda", dtype=torch.int32)
    cumsum_rows(lengths, exclusive=True)
