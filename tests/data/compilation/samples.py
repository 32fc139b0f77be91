"""Kernels with constructs that the compiler's texts show in many shapes; compiled into the golden artefacts beside it."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, factor):
    return x * factor + tl.exp(x)


@triton.jit
def uses_helper(x, o, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    v = scaled(v, factor)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def causal(q, k, o, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1)
    m = start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = head * N * D
    qt = tl.load(q + base + m[:, None] * D + d[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for j in range(0, (start + 1) * BM, BN):
        n = j + tl.arange(0, BN)
        kt = tl.load(k + base + n[None, :] * D + d[:, None])
        s = tl.dot(qt, kt)
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(best, tl.max(s, 1))
        total = total * tl.exp2(best - new) + tl.sum(tl.exp2(s - new[:, None]), 1)
        best = new
    tl.store(o + head * N + m, best + tl.log2(total))


@triton.jit
def persistent_grouped(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        group = tile // (G * tiles_n)
        first = group * G
        rows = min(tiles_m - first, G)
        pm = first + (tile % (G * tiles_n)) % rows
        pn = (tile % (G * tiles_n)) // rows
        rm = (pm * BM + tl.arange(0, BM)) % M
        rn = (pn * BN + tl.arange(0, BN)) % N
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
def with_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    pm = tl.program_id(0) * BM
    pn = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([pm, k]), db.load([k, pn]), acc)
    dc.store([pm, pn], acc.to(tl.float16))


@triton.jit
def branches(x, o, lengths, n, flag, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    if flag == 3:
        tl.store(o + row * n + tl.arange(0, BLOCK), tl.arange(0, BLOCK).to(tl.float32))
    else:
        for j in range(0, length, BLOCK):
            c = j + tl.arange(0, BLOCK)
            v = tl.load(x + row * n + c, mask=c < length, other=0.0)
            if length > 7:
                v = tl.sqrt(v)
            tl.store(o + row * n + c, tl.cumsum(v, 0), mask=c < length)


@triton.jit
def waits(lock, x, n, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)
    tl.atomic_xchg(lock, 0)


@triton.jit
def int8_dot(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rm[:, None] * BK + rk[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot(x, y))


@triton.jit
def early_return(x, n, rows, BLOCK: tl.constexpr):
    if tl.program_id(0) >= rows:
        return
    i = tl.arange(0, BLOCK)
    p = x + tl.program_id(0) * n + i
    tl.store(p, tl.load(p, mask=i < n) * 2, mask=i < n)


def cases():
    """Return name → launch, as `pathologies.cases()` does."""

    def empty(*shape, dtype=torch.float16):
        return torch.empty(*shape, dtype=dtype, device="cuda")

    a, b, c = empty(1024, 512), empty(512, 2048), empty(1024, 2048)
    x, o = empty(100, 1000, dtype=torch.float32), empty(100, 1000, dtype=torch.float32)
    q, k, lse = empty(8, 1024, 64), empty(8, 1024, 64), empty(8, 1024, dtype=torch.float32)
    lengths, lock = empty(100, dtype=torch.int32), empty(1, dtype=torch.int32)
    i8 = empty(128, 128, dtype=torch.int8)
    i32 = empty(128, 128, dtype=torch.int32)
    return {
        "uses_helper": lambda: uses_helper[(98,)](x, o, 100000, 0.5, 1024),
        "causal": lambda: causal[(16, 8)](q, k, lse, 1024, 64, 64, 32),
        "persistent_grouped": lambda: persistent_grouped[(32,)](a, b, c, 1024, 2048, 512, 128, 128, 64, 4),
        "with_descriptors": lambda: with_descriptors[(8, 16)](a, b, c, 1024, 2048, 512, 128, 128, 64),
        "branches": lambda: branches[(100,)](x, o, lengths, 1000, 2, 256),
        "waits": lambda: waits[(10,)](lock, x, 1000, 1024),
        "int8_dot": lambda: int8_dot[(1,)](i8, i8, i32, 128, 128, 128),
        "early_return": lambda: early_return[(128,)](x, 1000, 100, 1024),
    }
