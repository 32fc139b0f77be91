"""Kernels whose layouts, accesses, conversions, loops and atomics are known; compiled into the artefacts beside it."""

import torch
import triton
import triton.language as tl


@triton.jit
def pipelined_dot(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


@triton.jit
def transposed(x, o, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(o + columns[:, None] * N + rows[None, :], tl.trans(tile))


@triton.jit
def strided(x, o, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i * STEP))


@triton.jit
def odd_rows(x, o, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(o + row * BLOCK + i, tl.load(x + row * width + i))


@triton.jit
def gathered_rows(x, index, o, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    tl.store(o + tl.program_id(0) * BLOCK + i, tl.load(x + row * BLOCK + i))


@triton.jit
def gathered_elements(x, index, o, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + tl.load(index + i)))


@triton.jit
def orders(x, h, lock, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.atomic_add(h + i, v, sem="relaxed")
    old = tl.atomic_max(lock, 1, sem="acquire", scope="cta")
    tl.atomic_add(h + i % 16, v + old)
    tl.atomic_cas(lock, 0, 1, sem="release", scope="sys")


@triton.jit
def functions(x, o, n, d, steps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    for _ in range(steps):
        v = tl.exp2(v)
        v = tl.div_rn(v, 3.5 + v)
    w = tl.log2(tl.abs(v)) + tl.rsqrt(v)
    tl.store(o + i // d, w, mask=i < n)


@triton.jit
def row_sum(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + i, mask=i < n, other=0.0)
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def few_lanes(x, o, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i) + 1.0)


@triton.jit
def unpipelined_dot(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    rm = tl.arange(0, BM)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    k = 0
    while k < K:
        acc += tl.dot(tl.load(a + rm[:, None] * K + k + rk[None, :]), tl.load(b + (k + rk[:, None]) * BM + rm[None, :]))
        k += BK
    tl.store(c + rm[:, None] * BM + rm[None, :], acc)


def cases():
    """Return name → launch, as `pathologies.cases()` does."""

    def empty(*shape, dtype=torch.float32):
        return torch.empty(*shape, dtype=dtype, device="cuda")

    half = torch.float16
    a, b, c = empty(1024, 512, dtype=half), empty(512, 2048, dtype=half), empty(1024, 2048, dtype=half)
    x, o, rows = empty(1 << 20), empty(1 << 20), empty(100, 1000)
    xh, oh = empty(1 << 20, dtype=half), empty(1 << 20, dtype=half)
    index, lock = empty(1 << 16, dtype=torch.int32), empty(1, dtype=torch.int32)
    counts = empty(1024, dtype=torch.int32)
    return {
        "pipelined_dot": lambda: pipelined_dot[(8, 16)](a, b, c, 2048, 512, 128, 128, 64, num_warps=8, num_stages=4),
        "transposed": lambda: transposed[(16, 16)](x, o, 1024, 64),
        "strided": lambda: strided[(64,)](x, o, 4, 1024),
        "odd_rows": lambda: odd_rows[(64,)](xh, oh, 1004, 1024),
        "gathered_rows": lambda: gathered_rows[(64,)](x, index, o, 1024),
        "gathered_elements": lambda: gathered_elements[(64,)](x, index, o, 1024),
        "orders": lambda: orders[(64,)](counts, counts, lock, 256),
        "functions": lambda: functions[(98,)](x, o, 100000, 7, 12, 1024),
        "row_sum": lambda: row_sum[(100,)](rows, o, 1000, 256),
        "few_lanes": lambda: few_lanes[(4096,)](x, o, 32, num_warps=4),
        "unpipelined_dot": lambda: unpipelined_dot[(1,)](a, b, c, 512, 64, 32, num_stages=3),
    }
