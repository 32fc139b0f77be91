"""Reductions over rows and columns, softmax, normalisations, a loss, a scan, and quantisation of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, cols, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        mask = (m[:, None] < rows) & (n[None, :] < cols)
        acc += tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + m, tl.sum(acc, axis=1), mask=m < rows)


def row_sum(x, BLOCK_M, BLOCK_N, num_warps, num_stages):
    rows, cols = x.shape
    out = torch.empty((rows,), device=x.device, dtype=x.dtype)
    row_sum_kernel[(triton.cdiv(rows, BLOCK_M),)](
        x, out, rows, cols, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages
    )
    return out


@triton.jit
def column_sum_kernel(x_ptr, part_ptr, rows, cols, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    chunk = tl.cdiv(rows, SPLIT)
    first = tl.program_id(1) * chunk
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, chunk, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        mask = (m[:, None] < chunk) & (first + m[:, None] < rows) & (n[None, :] < cols)
        acc += tl.load(x_ptr + (first + m[:, None]) * cols + n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(part_ptr + tl.program_id(1) * cols + n, tl.sum(acc, axis=0), mask=n < cols)


def column_sum(x, SPLIT, BLOCK_M, BLOCK_N, num_warps, num_stages):
    rows, cols = x.shape
    part = torch.empty((SPLIT, cols), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(cols, BLOCK_N), SPLIT)
    column_sum_kernel[grid](
        x, part, rows, cols, SPLIT=SPLIT, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages
    )
    return part


@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, x)
        total = total * tl.exp(top - new) + tl.exp(x - new)
        top = new
    peak = tl.max(top, axis=0)
    total = tl.sum(total * tl.exp(top - peak), axis=0)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + n, (tl.exp(x - peak) / total).to(tl.float16), mask=n < cols)


def softmax(x, BLOCK, num_warps, num_stages):
    out = torch.empty_like(x)
    rows, cols = x.shape
    softmax_kernel[(rows,)](x, out, cols, BLOCK=BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.zeros((BLOCK,), tl.float32)
    second = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=0.0).to(tl.float32)
        first += x
        second += x * x
    mean = tl.sum(first, axis=0) / cols
    rstd = tl.rsqrt(tl.sum(second, axis=0) / cols - mean * mean + eps)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=0.0).to(tl.float32)
        w = tl.load(weight_ptr + n, mask=n < cols, other=0.0).to(tl.float32)
        b = tl.load(bias_ptr + n, mask=n < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + n, ((x - mean) * rstd * w + b).to(tl.bfloat16), mask=n < cols)


def layer_norm(x, weight, bias, BLOCK, num_warps, num_stages):
    out = torch.empty_like(x)
    rows, cols = x.shape
    layer_norm_kernel[(rows,)](
        x, weight, bias, out, cols, 1e-5, BLOCK=BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return out


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, rows, cols, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    mask = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1) / cols + eps)
    w = tl.load(weight_ptr + n, mask=n < cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + m[:, None] * cols + n[None, :], (x * rstd[:, None] * w[None, :]).to(tl.bfloat16), mask=mask)


def rms_norm(x, weight, BLOCK_M, num_warps, num_stages):
    out = torch.empty_like(x)
    rows, cols = x.shape
    rms_norm_kernel[(triton.cdiv(rows, BLOCK_M),)](
        x, weight, out, rows, cols, 1e-6,
        BLOCK_M=BLOCK_M, BLOCK_N=triton.next_power_of_2(cols), num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


@triton.jit
def cross_entropy_kernel(logits_ptr, label_ptr, loss_ptr, lse_ptr, vocabulary, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(label_ptr + row)
    peak = float("-inf")
    total = 0.0
    for start in range(0, vocabulary, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * vocabulary + n, mask=n < vocabulary, other=float("-inf")).to(tl.float32)
        new = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new) + tl.sum(tl.exp(x - new), axis=0)
        peak = new
    lse = peak + tl.log(total)
    wanted = tl.load(logits_ptr + row * vocabulary + label).to(tl.float32)
    tl.store(loss_ptr + row, lse - wanted)
    tl.store(lse_ptr + row, lse)


def cross_entropy(logits, label, BLOCK, num_warps, num_stages):
    rows, vocabulary = logits.shape
    loss, lse = (torch.empty((rows,), device=logits.device, dtype=torch.float32) for _ in range(2))
    cross_entropy_kernel[(rows,)](
        logits, label, loss, lse, vocabulary, BLOCK=BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return loss, lse


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, rows, cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    carry = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, cols, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        mask = (m[:, None] < rows) & (n[None, :] < cols)
        x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=mask, other=0.0)
        running = tl.cumsum(x, axis=1) + carry[:, None]
        tl.store(out_ptr + m[:, None] * cols + n[None, :], running, mask=mask)
        # Not `carry += tl.sum(x)`: a pass of Triton 3.6 fails on a loop that both scans and sums up.
        carry = tl.sum(tl.where(n[None, :] == start + BLOCK_N - 1, running, 0.0), axis=1)


def cumsum(x, BLOCK_M, BLOCK_N, num_warps, num_stages):
    out = torch.empty_like(x)
    rows, cols = x.shape
    cumsum_kernel[(triton.cdiv(rows, BLOCK_M),)](
        x, out, rows, cols, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps, num_stages=num_stages
    )
    return out


@triton.jit
def quantize_rows_kernel(x_ptr, out_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=0.0).to(tl.float32)
        top = tl.maximum(top, tl.abs(x))
    scale = tl.maximum(tl.max(top, axis=0), 1e-8) / 127.0
    tl.store(scale_ptr + row, scale)
    for start in range(0, cols, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + n, mask=n < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + n, tl.floor(x / scale + 0.5).to(tl.int8), mask=n < cols)


def quantize_rows(x, BLOCK, num_warps, num_stages):
    rows, cols = x.shape
    out = torch.empty((rows, cols), device=x.device, dtype=torch.int8)
    scale = torch.empty((rows,), device=x.device, dtype=torch.float32)
    quantize_rows_kernel[(rows,)](x, out, scale, cols, BLOCK=BLOCK, num_warps=num_warps, num_stages=num_stages)
    return out, scale


@triton.jit
def conv1d_kernel(
    x_ptr, weight_ptr, out_ptr, length, channels, TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    base = tl.program_id(2).to(tl.int64) * length * channels
    acc = tl.zeros((BLOCK_T, BLOCK_C), tl.float32)
    for k in tl.static_range(TAPS):
        s = t - (TAPS - 1) + k
        mask = (s[:, None] >= 0) & (s[:, None] < length) & (c[None, :] < channels)
        x = tl.load(x_ptr + base + s[:, None] * channels + c[None, :], mask=mask, other=0.0).to(tl.float32)
        w = tl.load(weight_ptr + k * channels + c, mask=c < channels, other=0.0).to(tl.float32)
        acc += x * w[None, :]
    mask = (t[:, None] < length) & (c[None, :] < channels)
    silu = acc / (1.0 + tl.exp(-acc))
    tl.store(out_ptr + base + t[:, None] * channels + c[None, :], silu.to(tl.bfloat16), mask=mask)


def conv1d(x, weight, BLOCK_T, BLOCK_C, num_warps):
    out = torch.empty_like(x)
    batch, length, channels = x.shape
    grid = (triton.cdiv(length, BLOCK_T), triton.cdiv(channels, BLOCK_C), batch)
    conv1d_kernel[grid](
        x, weight, out, length, channels, TAPS=weight.shape[0], BLOCK_T=BLOCK_T, BLOCK_C=BLOCK_C, num_warps=num_warps
    )
    return out
