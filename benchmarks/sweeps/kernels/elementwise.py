"""Kernels that touch every element once: no reduction, no matrix product."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_add_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr, TILES: tl.constexpr):
    start = tl.program_id(0) * BLOCK * TILES
    for t in range(TILES):
        i = start + t * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        y = tl.load(y_ptr + i, mask=i < n)
        tl.store(out_ptr + i, x * alpha + y, mask=i < n)


def scale_add(x, y, BLOCK, TILES, num_warps):
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, BLOCK * TILES),)
    scale_add_kernel[grid](x, y, out, n, 0.5, BLOCK=BLOCK, TILES=TILES, num_warps=num_warps)
    return out


@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (m[:, None] < rows) & (n[None, :] < cols)
    at = m[:, None] * cols + n[None, :]
    x = tl.load(x_ptr + at, mask=mask).to(tl.float32) + tl.load(bias_ptr + n, mask=n < cols).to(tl.float32)[None, :]
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    gelu = x / (1.0 + tl.exp(-2.0 * inner))
    tl.store(out_ptr + at, gelu.to(tl.float16), mask=mask)


def bias_gelu(x, bias, BLOCK_M, BLOCK_N, num_warps):
    out = torch.empty_like(x)
    rows, cols = x.shape
    grid = (triton.cdiv(rows, BLOCK_M), triton.cdiv(cols, BLOCK_N))
    bias_gelu_kernel[grid](x, bias, out, rows, cols, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps)
    return out


@triton.jit
def rotary_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, tokens, heads, HALF: tl.constexpr, BLOCK_T: tl.constexpr):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, HALF)
    mask = (t < tokens)[:, None]
    angle = t[:, None] * HALF + d[None, :]
    cos = tl.load(cos_ptr + angle, mask=mask, other=0.0)
    sin = tl.load(sin_ptr + angle, mask=mask, other=0.0)
    base = (t[:, None] * heads + tl.program_id(1)) * (2 * HALF) + d[None, :]
    a = tl.load(x_ptr + base, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + base + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + base, (a * cos - b * sin).to(tl.bfloat16), mask=mask)
    tl.store(out_ptr + base + HALF, (b * cos + a * sin).to(tl.bfloat16), mask=mask)


def rotary(x, cos, sin, BLOCK_T, num_warps, num_stages):
    out = torch.empty_like(x)
    tokens, heads, width = x.shape
    grid = (triton.cdiv(tokens, BLOCK_T), heads)
    rotary_kernel[grid](
        x, cos, sin, out, tokens, heads, HALF=width // 2, BLOCK_T=BLOCK_T, num_warps=num_warps, num_stages=num_stages
    )
    return out


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, seed, keep, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    kept = tl.rand(seed, i) < keep
    tl.store(out_ptr + i, tl.where(kept, x / keep, 0.0), mask=i < n)


def dropout(x, BLOCK, num_warps, num_stages):
    out = torch.empty_like(x)
    n = x.numel()
    dropout_kernel[(triton.cdiv(n, BLOCK),)](
        x, out, n, 1234, 0.9, BLOCK=BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return out
