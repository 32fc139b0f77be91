"""Kernels with a known bottleneck in memory: bandwidth, access patterns, traffic, atomics, launches.

Every host function takes nothing and makes one launch. `LABELS` names the classes that are right for it and why; they
were written down before anything was measured, and after the rules of `tritonforge.diagnosis` were fixed.
"""

import torch
import triton
import triton.language as tl

DEVICE = "cuda"


@triton.jit
def scale(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 3.0, mask=i < n)


@triton.jit
def field_of_records(records, o, n, FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(records + i * FIELDS + 3, mask=i < n), mask=i < n)


@triton.jit
def look_up(table, index, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n, other=0)
    tl.store(o + i, tl.load(table + at, mask=i < n), mask=i < n)


@triton.jit
def look_up_rows(table, index, o, D: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(index + row).to(tl.int64)
    c = tl.arange(0, D)
    tl.store(o + row.to(tl.int64) * D + c, tl.load(table + at * D + c))


@triton.jit
def layer_norm_passes(x, w, b, o, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in range(0, n, BLOCK):
        c = j + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + c, mask=c < n, other=0.0)
    mean = tl.sum(total, 0) / n
    spread = tl.zeros((BLOCK,), tl.float32)
    for j in range(0, n, BLOCK):
        c = j + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n, other=0.0)
        d = tl.where(c < n, v - mean, 0.0)
        spread += d * d
    scale = 1 / tl.sqrt(tl.sum(spread, 0) / n + eps)
    for j in range(0, n, BLOCK):
        c = j + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n)
        gain, shift = tl.load(w + c, mask=c < n), tl.load(b + c, mask=c < n)
        tl.store(o + row * n + c, (v - mean) * scale * gain + shift, mask=c < n)


@triton.jit
def rms_norm(x, w, o, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + c, mask=c < n, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(v * v, 0) / n + eps)
    tl.store(o + row * n + c, (v * scale * tl.load(w + c, mask=c < n)).to(o.dtype.element_ty), mask=c < n)


@triton.jit
def sums_of_all(x, o, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in range(0, n, BLOCK):
        at = (j + program * BLOCK * 7) % n
        total += tl.load(x + at + tl.arange(0, BLOCK))
    tl.store(o + program, tl.sum(total, 0))


@triton.jit
def add_to_row(x, bias, o, D: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, D)
    tl.store(o + row * D + c, tl.load(x + row * D + c) + tl.load(bias + c))


@triton.jit
def long_row_sum(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for j in range(0, n, BLOCK):
        total += tl.load(x + row.to(tl.int64) * n + j + tl.arange(0, BLOCK))
    tl.store(o + row, tl.sum(total, 0))


@triton.jit
def count_above(x, count, limit, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(count + tl.zeros((BLOCK,), tl.int32), 1, mask=v > limit)


@triton.jit
def moving_average(x, o, n, decay):
    row = tl.program_id(0)
    level = 0.0
    for t in range(n):
        level = decay * level + (1 - decay) * tl.load(x + row * n + t)
        tl.store(o + row * n + t, level)


@triton.jit
def running_sums(x, o, n, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for t in range(n):
        total += tl.load(x + row * n + t, mask=row < rows, other=0.0)
        tl.store(o + row * n + t, total, mask=row < rows)


def _random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def stream():
    n = 1 << 27
    x = _random(n, dtype=torch.bfloat16)
    scale[(triton.cdiv(n, 8192),)](x, torch.empty_like(x), n, 8192, num_warps=8)


def records():
    n = 1 << 24
    x, o = _random(n * 8), torch.empty(n, device=DEVICE)
    field_of_records[(triton.cdiv(n, 1024),)](x, o, n, 8, 1024)


def random_elements():
    n, size = 1 << 24, 1 << 27
    table, index = _random(size), torch.randint(0, size, (n,), device=DEVICE, dtype=torch.int32)
    look_up[(triton.cdiv(n, 512),)](table, index, torch.empty(n, device=DEVICE), n, 512)


def random_rows():
    rows, width = 1 << 17, 1024
    table = _random(rows, width, dtype=torch.float16)
    index = torch.randperm(rows, device=DEVICE).to(torch.int32)
    look_up_rows[(rows,)](table, index, torch.empty_like(table), width, num_warps=4)


def three_pass_layer_norm():
    rows, width = 4096, 32768
    x, w, b = _random(rows, width), _random(width), _random(width)
    layer_norm_passes[(rows,)](x, w, b, torch.empty_like(x), width, 1e-5, 2048, num_warps=8)


def one_pass_rms_norm():
    rows, width = 32768, 4096
    x, w = _random(rows, width, dtype=torch.float16), _random(width)
    rms_norm[(rows,)](x, w, torch.empty_like(x), width, 1e-6, 4096, num_warps=8)


def reread_small_buffer():
    n, programs = 1 << 21, 1056
    sums_of_all[(programs,)](_random(n), torch.empty(programs, device=DEVICE), n, 4096, num_warps=8)


def short_rows():
    rows, width = 1 << 21, 32
    x, bias = _random(rows, width), _random(width)
    add_to_row[(rows,)](x, bias, torch.empty_like(x), width, num_warps=4)


def tiny():
    x = _random(2048)
    scale[(8,)](x, torch.empty_like(x), 2048, 256)


def few_long_rows():
    rows, width = 16, 1 << 22
    long_row_sum[(rows,)](_random(rows, width), torch.empty(rows, device=DEVICE), width, 4096, num_warps=8)


def hot_counter():
    n = 1 << 22
    count = torch.zeros(1, device=DEVICE, dtype=torch.int32)
    count_above[(triton.cdiv(n, 1024),)](_random(n), count, -1.0, n, 1024)


def sequential_average():
    rows, steps = 4096, 2048
    x = _random(rows, steps)
    moving_average[(rows,)](x, torch.empty_like(x), steps, 0.9, num_warps=1)


def lanes_along_rows():
    rows, steps = 1 << 16, 1024
    x = _random(rows, steps)
    running_sums[(triton.cdiv(rows, 128),)](x, torch.empty_like(x), steps, rows, 128)


LABELS = {
    "stream": (
        "scale",
        {"dram-bandwidth", "at-roofline"},
        "every byte is read or written once, in order, by wide blocks",
    ),
    "records": (
        "field_of_records",
        {"uncoalesced-access"},
        "4 bytes of each 32-byte record are read, so seven eighths of every sector are fetched for nothing",
    ),
    "random_elements": (
        "look_up",
        {"uncoalesced-access"},
        "each lane reads 4 bytes at a random place of 512 MB, a sector of its own",
    ),
    "random_rows": (
        "look_up_rows",
        {"dram-bandwidth", "at-roofline"},
        "rows of 2 KiB are contiguous, so that their order does not matter",
    ),
    "three_pass_layer_norm": (
        "layer_norm_passes",
        {"redundant-traffic"},
        "rows of 128 KiB are read three times; those of all resident programs exceed L2",
    ),
    "one_pass_rms_norm": (
        "rms_norm",
        {"dram-bandwidth", "at-roofline"},
        "a row stays in registers, so every byte is moved once",
    ),
    "reread_small_buffer": (
        "sums_of_all",
        {"l2-bandwidth"},
        "1056 programs read the same 8 MB, more than L1 and less than L2, each from another place",
    ),
    "short_rows": (
        "add_to_row",
        {"block-too-small"},
        "two million programs of 128 lanes add 32 elements each",
    ),
    "tiny": ("scale", {"launch-bound"}, "8 KB take nanoseconds, a launch microseconds"),
    "few_long_rows": ("long_row_sum", {"grid-too-small"}, "16 programs for 132 SMs, with 16 MB each"),
    "hot_counter": (
        "count_above",
        {"atomic-contention"},
        "most of four million lanes add to one address, one atomic each",
    ),
    "sequential_average": (
        "moving_average",
        {"scalar-loop"},
        "a program loads, uses and stores one element per iteration",
    ),
    "lanes_along_rows": (
        "running_sums",
        {"uncoalesced-access"},
        "lanes lie 4 KiB apart, so that each touches a sector of its own at every step",
    ),
}
"""Host function → (kernel, classes that are right, why)."""
