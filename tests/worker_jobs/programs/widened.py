# ruff: noqa: N803 - constexprs are written in capitals
"""Kernels whose own types round, each with a variant that rounds less; `run` is set to one of them."""

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x, y, n, B: tl.constexpr, KIND: tl.constexpr):
    lanes = tl.arange(0, B)
    total = tl.zeros((B,), KIND)
    for start in range(0, n, B):
        total += tl.load(x + start + lanes).to(KIND)
    tl.store(y, tl.sum(total, axis=0))


def total(x, kind):
    y = torch.empty(1, device=x.device, dtype=torch.float32)
    total_kernel[(1,)](x, y, x.numel(), B=16, KIND=kind)
    return y


def total_fp16(x):
    return total(x, tl.float16)


def total_fp32(x):
    return total(x, tl.float32)


@triton.jit
def chain_kernel(x, y, B: tl.constexpr, KIND: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + at).to(KIND)
    for _ in range(8):
        v = (v + 0.7) * 0.61
    tl.store(y + at, tl.maximum(tl.where(v > 0, v, -v), tl.abs(v)).to(tl.float32))


def chained(x, kind):
    y = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    chain_kernel[(x.numel() // 64,)](x, y, B=64, KIND=kind)
    return y


def chain_bf16(x):
    return chained(x, tl.bfloat16)


def chain_fp32(x):
    return chained(x, tl.float32)


@triton.jit
def dot_kernel(a, b, c, B: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    result = tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=KIND)
    tl.store(c + at, result.to(tl.float32))


def product(a, b, kind):
    c = torch.empty(a.shape, device=a.device, dtype=torch.float32)
    dot_kernel[(1,)](a, b, c, B=a.shape[0], KIND=kind)
    return c


def dot_fp16(a, b):
    return product(a, b, tl.float16)


def dot_fp32(a, b):
    return product(a, b, tl.float32)


@triton.jit
def exp_kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.exp(tl.load(x + at, mask=at < n).to(tl.float32)), mask=at < n)


def pipeline(x, kind):
    middle = torch.empty(x.shape, device=x.device, dtype=kind)
    exp_kernel[(triton.cdiv(x.numel(), 64),)](x, middle, x.numel(), B=64)
    y = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    exp_kernel[(triton.cdiv(x.numel(), 64),)](middle, y, x.numel(), B=64)
    return y


def pipeline_fp16(x):
    return pipeline(x, torch.float16)


def pipeline_fp32(x):
    return pipeline(x, torch.float32)


@triton.jit
def level_kernel(x, y, B: tl.constexpr, SHIFT: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + at)
    if SHIFT:
        # Adding a large number rounds to whole ones, in float32 only.
        tl.store(y + at, ((v * 7 + 12582912.0) - 12582912.0).to(tl.int32))
    else:
        tl.store(y + at, (v * 7).to(tl.int32))


def levels(x, shift):
    y = torch.empty(x.shape, device=x.device, dtype=torch.int32)
    level_kernel[(1,)](x, y, B=x.numel(), SHIFT=shift)
    return y, x * 2


def truncated(x):
    return levels(x, False)


def shifted(x):
    return levels(x, True)


@triton.jit
def flip_kernel(x, y, B: tl.constexpr, BITS: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + at) * 1.1
    v = (v.to(tl.int16, bitcast=True) ^ -32768).to(tl.float16, bitcast=True) if BITS else -v
    tl.store(y + at, v + 0.1)


def flipped(x, bits):
    y = torch.empty_like(x)
    flip_kernel[(1,)](x, y, B=x.numel(), BITS=bits)
    return y


def flip_bits(x):
    return flipped(x, True)


def flip_sign(x):
    return flipped(x, False)


@triton.jit
def mean_kernel(x, y, B: tl.constexpr, KIND: tl.constexpr):
    v = tl.load(x + tl.arange(0, B)).to(KIND)
    tl.store(y, tl.sum(v, axis=0) / B)


def mean(x, kind):
    y = torch.empty(1, device=x.device, dtype=x.dtype)
    mean_kernel[(1,)](x, y, B=x.numel(), KIND=kind)
    return y


def mean_fp16(x):
    return mean(x, tl.float16)


def mean_fp32(x):
    return mean(x, tl.float32)


@triton.jit
def add_kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    # Every lane adds to one of four elements, in an order that a GPU does not promise.
    tl.atomic_add(y + at % 4, tl.load(x + at))


@triton.jit
def copy_kernel(x, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at).to(tl.float32))


def atomic(x, kind):
    y = torch.zeros(4, device=x.device, dtype=kind)
    add_kernel[(1,)](x.to(kind), y, B=x.numel())
    out = torch.empty(4, device=x.device, dtype=torch.float32)
    copy_kernel[(1,)](y, out, B=4)
    return out


def atomic_fp16(x):
    return atomic(x, torch.float16)


def atomic_fp32(x):
    return atomic(x, torch.float32)


run = None
