# ruff: noqa: N803, N806, PLR0917 - constexprs and extents are written in capitals; kernels take many arguments
"""Kernels with variants that compute the same and variants that lose precision; `run` is set to one of them."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x, y, n, B: tl.constexpr, SPLIT: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        total += tl.load(x + row * n + start + lanes, mask=start + lanes < n, other=0.0).to(tl.float32)
    if SPLIT:
        pairs = tl.reshape(total, (B // 4, 4))
        total = tl.sum(pairs, axis=1)
    tl.store(y + row, tl.sum(total, axis=0))


def sums(x, block, split=False):
    y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
    sum_kernel[(x.shape[0],)](x, y, x.shape[1], B=block, SPLIT=split)
    return y


def sum_narrow(x):
    return sums(x, 32)


def sum_wide(x):
    return sums(x, 1024)


def sum_in_few_lanes(x):
    return sums(x, 8)


def sum_split(x):
    return sums(x, 256, True)


@triton.jit
def sum_low_kernel(x, y, n, B: tl.constexpr, LOW: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros((B,), LOW)
    for start in range(0, n, B):
        total += tl.load(x + row * n + start + lanes, mask=start + lanes < n, other=0.0).to(LOW)
    tl.store(y + row, tl.sum(total, axis=0))


def sum_in_fp16(x):
    y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
    sum_low_kernel[(x.shape[0],)](x, y, x.shape[1], B=32, LOW=tl.float16)
    return y


@triton.jit
def kahan_kernel(x, y, n, COMPENSATED: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    lost = tl.zeros((B,), tl.float32)
    for k in range(n):
        term = tl.load(x + k * B + at)
        if COMPENSATED:
            term = term - lost
            new = total + term
            lost = (new - total) - term
            total = new
        else:
            total += term
    tl.store(y + at, total)


def column_sums(x, compensated):
    y = torch.empty(x.shape[1], device=x.device, dtype=x.dtype)
    kahan_kernel[(1,)](x, y, x.shape[0], COMPENSATED=compensated, B=x.shape[1])
    return y


def kahan(x):
    return column_sums(x, True)


def kahan_dropped(x):
    return column_sums(x, False)


@triton.jit
def softmax_kernel(x, y, n, B: tl.constexpr, FOLDED: tl.constexpr, LOW: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    values = tl.load(x + row * n + lanes, mask=lanes < n, other=float("-inf")).to(tl.float32)
    if FOLDED:
        values = values * 1.4426950408889634
        e = tl.exp2(values - tl.max(values, axis=0))
    else:
        e = tl.exp(values - tl.max(values, axis=0))
    if LOW:
        e = e.to(tl.bfloat16).to(tl.float32)
    tl.store(y + row * n + lanes, e / tl.sum(e, axis=0), mask=lanes < n)


@triton.jit
def online_kernel(x, y, n, B: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    top, total = float("-inf"), 0.0
    for start in range(0, n, B):
        v = tl.load(x + row * n + start + lanes, mask=start + lanes < n, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(v, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), axis=0)
        top = new
    for start in range(0, n, B):
        v = tl.load(x + row * n + start + lanes, mask=start + lanes < n, other=float("-inf")).to(tl.float32)
        tl.store(y + row * n + start + lanes, tl.exp(v - top) / total, mask=start + lanes < n)


def softmaxed(x, **options):
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]), **options)
    return y


def softmax(x):
    return softmaxed(x, FOLDED=False, LOW=False)


def softmax_exp2(x):
    return softmaxed(x, FOLDED=True, LOW=False)


def softmax_online(x):
    y = torch.empty_like(x)
    online_kernel[(x.shape[0],)](x, y, x.shape[1], B=64)
    return y


def softmax_bf16(x):
    return softmaxed(x, FOLDED=False, LOW=True)


@triton.jit
def variance_kernel(x, y, n, B: tl.constexpr, WAY: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    if WAY == "welford":
        mean, m2 = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
        count = 0
        for start in range(0, n, B):
            v = tl.load(x + row * n + start + lanes).to(tl.float32)
            count += 1
            delta = v - mean
            mean += delta / count
            m2 += delta * (v - mean)
        whole = tl.sum(mean, axis=0) / B
        apart = mean - whole
        tl.store(y + row, (tl.sum(m2, axis=0) + count * tl.sum(apart * apart, axis=0)) / n)
    elif WAY == "two":
        total = tl.zeros((B,), tl.float32)
        for start in range(0, n, B):
            total += tl.load(x + row * n + start + lanes).to(tl.float32)
        mean = tl.sum(total, axis=0) / n
        total = tl.zeros((B,), tl.float32)
        for start in range(0, n, B):
            d = tl.load(x + row * n + start + lanes).to(tl.float32) - mean
            total += d * d
        tl.store(y + row, tl.sum(total, axis=0) / n)
    else:
        total, squares = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
        for start in range(0, n, B):
            v = tl.load(x + row * n + start + lanes).to(tl.float32)
            total += v
            squares += v * v
        mean = tl.sum(total, axis=0) / n
        tl.store(y + row, tl.sum(squares, axis=0) / n - mean * mean)


def variances(x, way):
    y = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    variance_kernel[(x.shape[0],)](x, y, x.shape[1], B=64, WAY=way)
    return y


def variance(x):
    return variances(x, "two")


def variance_welford(x):
    return variances(x, "welford")


def variance_of_squares(x):
    return variances(x, "squares")


@triton.jit
def norm_kernel(x, w, y, n, B: tl.constexpr, WAY: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, B)
    mask = lanes < n
    v = tl.load(x + row * n + lanes, mask=mask, other=0.0).to(tl.float32)
    square = tl.sum(v * v, axis=0) / n + 1e-6
    weight = tl.load(w + lanes, mask=mask, other=0.0).to(tl.float32)
    if WAY == "rsqrt":
        out = v * tl.rsqrt(square) * weight
    elif WAY == "low":
        out = (v * tl.rsqrt(square)).to(tl.bfloat16).to(tl.float32) * weight
    else:
        out = v * (1 / tl.sqrt(square)) * weight
    tl.store(y + row * n + lanes, out, mask=mask)


def normed(x, w, way):
    y = torch.empty_like(x)
    norm_kernel[(x.shape[0],)](x, w, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]), WAY=way)
    return y


def norm(x, w):
    return normed(x, w, "sqrt")


def norm_rsqrt(x, w):
    return normed(x, w, "rsqrt")


def norm_bf16(x, w):
    return normed(x, w, "low")


@triton.jit
def tf32(x):
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)


@triton.jit
def dot_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WAY: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float16 if WAY == "fp16" else tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        if WAY == "tf32":
            left, right = tf32(left), tf32(right)
        if WAY == "fp16":
            acc += tl.dot(left, right, out_dtype=tl.float16)
        elif WAY == "added":
            acc = tl.dot(left, right, acc)
        else:
            acc += tl.dot(left, right)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def multiplied(a, b, block, way="plain"):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, block), triton.cdiv(N, block))
    dot_kernel[grid](a, b, c, M, N, K, BM=block, BN=block, BK=block, WAY=way)
    return c


def product(a, b):
    return multiplied(a, b, 32)


def product_tiled(a, b):
    return multiplied(a, b, 64, "added")


def product_tf32(a, b):
    return multiplied(a, b, 32, "tf32")


def product_fp16(a, b):
    return multiplied(a, b, 32, "fp16")


@triton.jit
def affine_kernel(x, y, out, n, B: tl.constexpr, WAY: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + at, mask=at < n, other=0.0), tl.load(y + at, mask=at < n, other=0.0)
    if WAY == "fused":
        result = (a.to(tl.float64) * 0.7 + b.to(tl.float64)).to(tl.float32)
    elif WAY == "low":
        result = (a.to(tl.float32) * 0.7).to(tl.bfloat16).to(tl.float32) + b.to(tl.float32)
    else:
        result = a.to(tl.float32) * 0.7 + b.to(tl.float32)
    tl.store(out + at, result, mask=at < n)


def combined(x, y, way):
    out = torch.empty_like(x)
    affine_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), B=256, WAY=way)
    return out


def affine(x, y):
    return combined(x, y, "plain")


def affine_fused(x, y):
    return combined(x, y, "fused")


def affine_bf16(x, y):
    return combined(x, y, "low")


run = None
