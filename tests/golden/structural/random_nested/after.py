"""Dropout with one seed, an argument, and numbers that say which others are drawn."""

import torch
import triton
import triton.language as tl


@triton.jit
def wide_rand(seed, offset):
    """The same as `tl.rand(seed, offset)`, with one multiplication for both halves of a product."""
    tl.static_assert(offset.dtype.primitive_bitwidth == 32)
    key = tl.to_tensor(seed).to(tl.uint64)
    k0 = (key & 0xFFFFFFFF).to(tl.uint32)
    k1 = (key >> 32).to(tl.uint32)
    c0 = offset.to(tl.uint32, bitcast=True)
    c1 = tl.zeros_like(c0)
    c2 = c1
    c3 = c1
    for _ in tl.static_range(10):
        first = c0.to(tl.uint64) * 0xD2511F53
        second = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (second >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (first >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = (second & 0xFFFFFFFF).to(tl.uint32)
        c3 = (first & 0xFFFFFFFF).to(tl.uint32)
        k0 = tl.add(k0, 0x9E3779B9, sanitize_overflow=False)
        k1 = tl.add(k1, 0xBB67AE85, sanitize_overflow=False)
    return tl.random.uint_to_uniform_float(c0)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, seed, n, p, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offsets, mask=offsets < n, other=0.0)
    flipped = (wide_rand(seed, row * n + offsets) > 0.5).to(tl.int32)
    keep = wide_rand(seed, (wide_rand(seed, offsets) > 0.5).to(tl.int32) + 2 * offsets + flipped) > p
    tl.store(out_ptr + row * n + offsets, tl.where(keep, x / (1 - p), 0.0), mask=offsets < n)


def dropout(x, p, seed):
    out = torch.empty_like(x)
    dropout_kernel[(x.shape[0],)](x, out, seed, x.shape[1], p, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def run():
    return dropout(torch.randn(3, 200), 0.5, 1)
