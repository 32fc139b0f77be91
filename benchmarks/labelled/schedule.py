"""Kernels with a known bottleneck in how work is spread over the GPU: imbalance, tails, too few programs.

Every host function takes nothing and makes one launch. `LABELS` names the classes that are right for it and why; they
were written down before anything was measured, and after the rules of `tritonforge.diagnosis` were fixed.
"""

import torch
import triton
import triton.language as tl

DEVICE = "cuda"


@triton.jit
def lower_triangle_sums(x, o, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    for r in range(ROWS):
        row = program * ROWS + r
        total = tl.zeros((BLOCK,), tl.float32)
        for j in range(0, row + 1, BLOCK):
            c = j + tl.arange(0, BLOCK)
            total += tl.load(x + row.to(tl.int64) * n + c, mask=c <= row, other=0.0)
        tl.store(o + row, tl.sum(total, 0))


@triton.jit
def sequence_sums(x, offsets, o, BLOCK: tl.constexpr):
    sequence = tl.program_id(0)
    first, last = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in range(first, last, BLOCK):
        c = j + tl.arange(0, BLOCK)
        total += tl.load(x + c, mask=c < last, other=0.0)
    tl.store(o + sequence, tl.sum(total, 0))


@triton.jit
def iterate(x, o, steps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    p = v
    for _ in range(steps):
        p = p * v + 0.25
    tl.store(o + i, p)


@triton.jit
def tall_product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for j in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (j + k)[None, :])
        y = tl.load(b + (j + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def triangle():
    programs, rows = 132, 96
    n = programs * rows
    x = torch.randn(n, n, device=DEVICE)
    lower_triangle_sums[(programs,)](x, torch.empty(n, device=DEVICE), n, rows, 1024, num_warps=4)


def ragged():
    lengths = torch.full((1024,), 4096, dtype=torch.int64)
    lengths[::128] = 1 << 21
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)
    x = torch.randn(int(offsets[-1]), device=DEVICE)
    sequence_sums[(1024,)](x, offsets.to(DEVICE), torch.empty(1024, device=DEVICE), 2048, num_warps=4)


def nearly_empty_last_round():
    programs, block = 140, 32768
    x = torch.rand(programs * block, device=DEVICE)
    iterate[(programs,)](x, torch.empty_like(x), 4096, block, num_warps=32)


def long_contraction():
    a = torch.randn(128, 65536, device=DEVICE).half()
    b = torch.randn(65536, 256, device=DEVICE).half()
    c = torch.empty(128, 256, device=DEVICE)
    tall_product[(1, 2)](a, b, c, 256, 65536, 128, 128, 64, num_warps=8, num_stages=3)


LABELS = {
    "triangle": (
        "lower_triangle_sums",
        {"load-imbalance"},
        "each SM has one program, and the last one sums 200 times as much as the first",
    ),
    "ragged": (
        "sequence_sums",
        {"load-imbalance"},
        "8 of 1024 sequences are 512 times as long as the others and have one program each",
    ),
    "nearly_empty_last_round": (
        "iterate",
        {"grid-too-small", "load-imbalance"},
        "140 equal programs that fill an SM each: eight SMs have two, the others wait for half of the time",
    ),
    "long_contraction": ("tall_product", {"grid-too-small"}, "two programs for 132 SMs"),
}
"""Host function → (kernel, classes that are right, why)."""
