"""Unpacks 4-bit weights, two in a byte, with a scale and a zero point for every group of columns."""

import torch
import triton
import triton.language as tl


@triton.jit
def dequantize_kernel(q_ptr, scale_ptr, zero_ptr, out_ptr, packed_cols, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = c < packed_cols
    packed = tl.load(q_ptr + row * packed_cols + c, mask=mask, other=0)
    low = (packed & 0xF).to(tl.float32)
    high = ((packed >> 4) & 0xF).to(tl.float32)
    groups = packed_cols * 2 // GROUP
    g = c * 2 // GROUP
    scale = tl.load(scale_ptr + row * groups + g, mask=mask, other=0.0).to(tl.float32)
    zero = tl.load(zero_ptr + row * groups + g, mask=mask, other=0.0).to(tl.float32)
    at = out_ptr + row * packed_cols * 2 + c * 2
    tl.store(at, ((low - zero) * scale).to(tl.float16), mask=mask)
    tl.store(at + 1, ((high - zero) * scale).to(tl.float16), mask=mask)


def dequantize(packed, scale, zero, group):
    rows, packed_cols = packed.shape
    out = torch.empty((rows, packed_cols * 2), device=packed.device, dtype=torch.float16)
    BLOCK = 128
    grid = (rows, triton.cdiv(packed_cols, BLOCK))
    with torch.cuda.device(packed.device):
        dequantize_kernel[grid](packed, scale, zero, out, packed_cols, GROUP=group, BLOCK=BLOCK)
    return out


if __name__ == "__main__":
    packed = torch.randint(0, 256, (11008, 4096), device="cuda", dtype=torch.uint8)
    scale = torch.rand(11008, 64, device="cuda", dtype=torch.float16)
    zero = torch.full((11008, 64), 8.0, device="cuda", dtype=torch.float16)
    dequantize(packed, scale, zero, 128)
