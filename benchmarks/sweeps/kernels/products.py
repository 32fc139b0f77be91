"""Matrix products: plain, transposed, batched, grouped by expert, with 8-bit operands, and without matrix units."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = (pid // (GROUP * cols)) * GROUP
    height = tl.minimum(rows - first, GROUP)
    m = (first + (pid % (GROUP * cols)) % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = ((pid % (GROUP * cols)) // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_at, mask=(m[:, None] < M) & (start + k[None, :] < K), other=0.0)
        b = tl.load(b_at, mask=(start + k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


def _matmul(a, b, precision, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    matmul_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP=GROUP, PRECISION=precision,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def matmul(a, b, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages):
    return _matmul(a, b, "tf32", BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages)


def matmul_transposed(a, b, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages):
    return _matmul(a, b.t(), "tf32", BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages)


def matmul_ieee(a, b, BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages):
    return _matmul(a, b, "ieee", BLOCK_M, BLOCK_N, BLOCK_K, GROUP, num_warps, num_stages)


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_base, b_base = a_ptr + batch * M * K, b_ptr + batch * K * N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_base + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_base + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    at = c_ptr + batch * M * N + m[:, None] * N + n[None, :]
    tl.store(at, acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


def batched_matmul(a, b, BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages):
    (batch, M, K), N = a.shape, b.shape[2]
    c = torch.empty((batch, M, N), device=a.device, dtype=a.dtype)
    batched_matmul_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), batch)](
        a, b, c, M, N, K, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


@triton.jit
def expert_matmul_kernel(
    x_ptr, expert_ptr, weight_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    expert = tl.load(expert_ptr + (tl.program_id(0) * BLOCK_M) // CHUNK).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    weight = weight_ptr + expert * K * N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + m[:, None] * K + start + k[None, :], mask=m[:, None] < M, other=0.0)
        w = tl.load(weight + (start + k[:, None]) * N + n[None, :], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(x, w, acc)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=mask)


def expert_matmul(x, expert, weight, CHUNK, BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages):
    (M, K), N = x.shape, weight.shape[2]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    expert_matmul_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, expert, weight, out, M, N, K,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, CHUNK=CHUNK, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


@triton.jit
def int8_matmul_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + start + k[None, :], mask=m[:, None] < M, other=0)
        b = tl.load(b_ptr + n[None, :] * K + start + k[:, None], mask=n[None, :] < N, other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], (acc.to(tl.float32) * scale[None, :]).to(tl.float16), mask=mask)


def int8_matmul(a, b, scale, BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=torch.float16)
    int8_matmul_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        a, b, scale, c, M, N, K, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


@triton.jit
def weight_only_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + start + k[None, :], mask=m[:, None] < M, other=0.0)
        b = tl.load(b_ptr + (start + k[:, None]) * N + n[None, :], mask=n[None, :] < N, other=0)
        acc = tl.dot(a, b.to(tl.float16), acc)
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], (acc * scale[None, :]).to(tl.float16), mask=mask)


def weight_only_matmul(a, b, scale, BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    weight_only_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        a, b, scale, c, M, N, K, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
