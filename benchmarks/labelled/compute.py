"""Kernels with a known bottleneck in arithmetic: tensor cores, ordinary units, registers, shared memory, waiting.

Every host function takes nothing and makes one launch. `LABELS` names the classes that are right for it and why; they
were written down before anything was measured, and after the rules of `tritonforge.diagnosis` were fixed.
"""

import torch
import triton
import triton.language as tl

DEVICE = "cuda"


@triton.jit
def product(a, b, c, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            ACC: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for j in range(0, K, BK):
        x = tl.load(a + m[:, None] * sam + (j + k)[None, :] * sak)
        y = tl.load(b + (j + k)[:, None] * sbk + n[None, :] * sbn)
        acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def thin_product(a, b, c, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]))
    tl.store(c + m[:, None].to(tl.int64) * N + n[None, :], acc)


@triton.jit
def horner(x, o, n, steps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    p, q = v, v * 0.5
    for _ in range(steps):
        p = p * v + 0.25
        q = q * v + 0.75
    tl.store(o + i, p + q, mask=i < n)


@triton.jit
def powers_of_two(x, o, n, steps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    for _ in range(steps):
        v = tl.exp2(v) - 1.0
    tl.store(o + i, v, mask=i < n)


@triton.jit
def mix_with_transpose(x, o, steps, SIZE: tl.constexpr):
    program = tl.program_id(0)
    r = tl.arange(0, SIZE)
    at = program * SIZE * SIZE + r[:, None] * SIZE + r[None, :]
    v = tl.load(x + at)
    for _ in range(steps):
        v = v * 0.5 + tl.trans(v) * 0.4
    tl.store(o + at, v)


@triton.jit
def follow_chain(following, data, o, steps, WIDTH: tl.constexpr):
    program = tl.program_id(0)
    at = program
    total = tl.zeros((WIDTH,), tl.float32)
    for _ in range(steps):
        at = tl.load(following + at)
        total += tl.load(data + at * WIDTH + tl.arange(0, WIDTH))
    tl.store(o + program * WIDTH + tl.arange(0, WIDTH), total)


def _random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def _multiply(a, b, c, tile, *, acc=tl.float32, precision="tf32", **options):
    (M, K), N = a.shape, b.shape[1]
    bm, bn, bk = tile
    product[(M // bm, N // bn)](
        a, b, c, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), bm, bn, bk, acc, precision, **options
    )


def bf16_large_tile():
    a, b = _random(8192, 4096, dtype=torch.bfloat16), _random(4096, 8192, dtype=torch.bfloat16)
    c = torch.empty(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    _multiply(a, b, c, (128, 256, 64), num_warps=8, num_stages=3)


def int8_large_tile():
    a = torch.randint(-8, 8, (8192, 8192), device=DEVICE, dtype=torch.int8)
    b = torch.randint(-8, 8, (8192, 8192), device=DEVICE, dtype=torch.int8).t()
    c = torch.empty(8192, 8192, device=DEVICE, dtype=torch.int32)
    _multiply(a, b, c, (128, 256, 128), acc=tl.int32, num_warps=8, num_stages=3)


def tf32_large_tile():
    a, b = _random(4096, 4096), _random(4096, 4096).t()
    _multiply(a, b, torch.empty(4096, 4096, device=DEVICE), (128, 256, 32), num_warps=8, num_stages=3)


def fp16_small_tile():
    a, b = _random(4096, 4096, dtype=torch.float16), _random(4096, 4096, dtype=torch.float16)
    _multiply(a, b, torch.empty(4096, 4096, device=DEVICE), (32, 64, 32), num_warps=4, num_stages=3)


def exact_fp32():
    a, b = _random(2048, 2048), _random(2048, 2048)
    _multiply(a, b, torch.empty(2048, 2048, device=DEVICE), (128, 64, 16), precision="ieee", num_warps=8, num_stages=2)


def small_contraction():
    a, b = _random(16384, 32, dtype=torch.float16), _random(32, 16384, dtype=torch.float16)
    c = torch.empty(16384, 16384, device=DEVICE)
    thin_product[(16384 // 128, 16384 // 128)](a, b, c, 16384, 32, 128, 128, num_warps=8)


def one_warp_large_tile():
    a, b = _random(4096, 4096, dtype=torch.float16), _random(4096, 4096, dtype=torch.float16)
    _multiply(a, b, torch.empty(4096, 4096, device=DEVICE), (128, 128, 32), num_warps=1, num_stages=2)


def unpipelined_large_tile():
    a, b = _random(4096, 4096, dtype=torch.float16), _random(4096, 4096, dtype=torch.float16)
    _multiply(a, b, torch.empty(4096, 4096, device=DEVICE), (128, 128, 128), num_warps=4, num_stages=1)


def polynomial():
    n = 1 << 24
    x = torch.rand(n, device=DEVICE)
    horner[(n // 1024,)](x, torch.empty_like(x), n, 512, 1024)


def exponentials():
    n = 1 << 24
    x = torch.rand(n, device=DEVICE)
    powers_of_two[(n // 1024,)](x, torch.empty_like(x), n, 128, 1024)


def transposes():
    programs, size = 2112, 64
    x = _random(programs, size, size)
    mix_with_transpose[(programs,)](x, torch.empty_like(x), 256, size)


def chain():
    chunks, width, programs = 1 << 20, 32, 264
    order = torch.randperm(chunks, device=DEVICE)
    following = torch.empty(chunks, device=DEVICE, dtype=torch.int32)
    following[order] = order.roll(-1).to(torch.int32)
    out = torch.empty(programs, width, device=DEVICE)
    follow_chain[(programs,)](following, _random(chunks, width), out, 2048, width, num_warps=1)


LABELS = {
    "bf16_large_tile": (
        "product",
        {"tensor-core", "at-roofline"},
        "128x256x64 tiles, three stages, large matrices: what tensor cores are made for",
    ),
    "int8_large_tile": (
        "product",
        {"tensor-core", "at-roofline"},
        "the same in int8, with both operands contiguous along the contraction",
    ),
    "tf32_large_tile": (
        "product",
        {"tensor-core", "at-roofline"},
        "the same in tf32, with both operands contiguous along the contraction",
    ),
    "fp16_small_tile": (
        "product",
        {"tile-too-small", "l2-bandwidth"},
        "32x64 tiles use each loaded byte for 21 FLOP; an H200 needs about 75 per byte of L2 traffic",
    ),
    "exact_fp32": ("product", {"no-tensor-core"}, "input_precision=ieee rules tensor cores out"),
    "small_contraction": (
        "thin_product",
        {"dram-bandwidth", "at-roofline"},
        "a contraction of 32 makes 1 GiB of output from 2 MiB of input: all there is to do is to write it",
    ),
    "one_warp_large_tile": (
        "product",
        {"register-spill"},
        "128x128 fp32 accumulators in one warp are 512 registers per thread, twice what there are",
    ),
    "unpipelined_large_tile": (
        "product",
        {"low-occupancy", "latency"},
        "one stage: loads are waited for before every dot, and 64 KiB of operands leave few warps to fill the time",
    ),
    "polynomial": ("horner", {"fp32-compute"}, "1024 multiply-adds for each 8 bytes"),
    "exponentials": (
        "powers_of_two",
        {"special-function"},
        "128 exponentials for each 8 bytes; their unit is an eighth as wide as the adders that the rest needs",
    ),
    "transposes": (
        "mix_with_transpose",
        {"shared-memory"},
        "each step exchanges the whole tile between threads through shared memory for two operations per element",
    ),
    "chain": (
        "follow_chain",
        {"latency"},
        "each address is loaded from the place before it, with one warp per program and two programs per SM",
    ),
}
"""Host function → (kernel, classes that are right, why)."""
