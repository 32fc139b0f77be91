"""Kernels whose work is where the data lies: transposition, gathering, scattering with atomics."""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=mask)
    tl.store(out_ptr + n[:, None] * rows + m[None, :], tl.trans(x), mask=tl.trans(mask))


def transpose(x, BLOCK_M, BLOCK_N, num_warps):
    rows, cols = x.shape
    out = torch.empty((cols, rows), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(rows, BLOCK_M), triton.cdiv(cols, BLOCK_N))
    transpose_kernel[grid](x, out, rows, cols, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps)
    return out


@triton.jit
def embedding_kernel(index_ptr, table_ptr, out_ptr, tokens, width, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row = tl.load(index_ptr + t, mask=t < tokens, other=0)
    mask = (t[:, None] < tokens) & (d[None, :] < width)
    values = tl.load(table_ptr + row[:, None] * width + d[None, :], mask=mask)
    tl.store(out_ptr + t[:, None] * width + d[None, :], values, mask=mask)


def embedding(index, table, BLOCK_T, BLOCK_D, num_warps):
    tokens, width = index.numel(), table.shape[1]
    out = torch.empty((tokens, width), device=table.device, dtype=table.dtype)
    grid = (triton.cdiv(tokens, BLOCK_T), triton.cdiv(width, BLOCK_D))
    embedding_kernel[grid](index, table, out, tokens, width, BLOCK_T=BLOCK_T, BLOCK_D=BLOCK_D, num_warps=num_warps)
    return out


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr):
    start = tl.program_id(0) * BLOCK * TILES
    for t in range(TILES):
        i = start + t * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + i, mask=i < n, other=0)
        tl.atomic_add(out_ptr + value % BINS, 1, mask=i < n, sem="relaxed")


def histogram(x, BINS, BLOCK, TILES, num_warps):
    out = torch.zeros((BINS,), device=x.device, dtype=torch.int32)
    n = x.numel()
    grid = (triton.cdiv(n, BLOCK * TILES),)
    histogram_kernel[grid](x, out, n, BINS=BINS, BLOCK=BLOCK, TILES=TILES, num_warps=num_warps)
    return out


@triton.jit
def scatter_add_kernel(x_ptr, segment_ptr, out_ptr, rows, width, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr):
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (r[:, None] < rows) & (d[None, :] < width)
    segment = tl.load(segment_ptr + r, mask=r < rows, other=0)
    x = tl.load(x_ptr + r[:, None] * width + d[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + segment[:, None] * width + d[None, :], x, mask=mask, sem="relaxed")


def scatter_add(x, segment, SEGMENTS, BLOCK_R, BLOCK_D, num_warps):
    rows, width = x.shape
    out = torch.zeros((SEGMENTS, width), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(rows, BLOCK_R), triton.cdiv(width, BLOCK_D))
    scatter_add_kernel[grid](x, segment, out, rows, width, BLOCK_R=BLOCK_R, BLOCK_D=BLOCK_D, num_warps=num_warps)
    return out
