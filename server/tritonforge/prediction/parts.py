"""The parts of the time model: for each resource, the µs that a launch would take if nothing else limited it.

Constants that are not on a data sheet are named here, with what they were fitted on; docs/prediction.md lists them.
"""

from __future__ import annotations

import math

from tritonforge.domain.compilation import Compilation
from tritonforge.prediction.gpus import GpuSpec
from tritonforge.prediction.load import WARP, Load

DRAM_SHARE = 0.88
"""Of the peak bandwidth, what a long copy reaches (4.2 of 4.8 TB/s on an H200)."""
DRAM_BURST = 2.0
"""Memory moves 64-byte pairs of 32-byte sectors: scattered accesses pay double."""
ISSUE_SHARE = 0.9
"""Of the issue slots, what a busy SM fills."""
PORT_BYTES = 64
"""Bytes per clock between an SM and L2 (NVIDIA's Ampere tuning guide and micro-benchmarks)."""
L2_SHARE = 1.2
"""Of the published L2 bandwidth: above 1, because requests of neighbouring SMs for one line are merged on the way."""
SPILL_BYTES = 6
"""Of one lane's access to spilled registers: half of them are 64-bit."""
START_US = 0.5
"""From one program leaving an SM to the first load of the next."""
FENCE_US = 1.0
"""A GPU-wide memory fence, as atomics with acquire-release ordering have before and behind them."""
ATOMIC_US = 5.2e-3
"""Between two atomic requests to one 32-byte sector of L2 (histogram and column sum on an H200)."""
L1_US = 0.02
"""A load that hits L1 and its dependent use."""
BEST_PATH_SHARE = 0.75
"""Of the published matrix rate, what a good kernel reaches: power holds the rest back (cuBLAS on an H200: 0.73)."""
OLD_PATH_SHARE = {"sm_90": 0.6, "sm_100": 0.35, "sm_103": 0.35}
"""Of that, what `mma` reaches where `wgmma` or `tcgen05` are the way to the full rate."""


def dram(load: Load, launch_bytes: int | None, gpu: GpuSpec, gbps: float) -> float:
    """Bytes that reach memory over its bandwidth.

    At least every distinct byte once. What one program reads again hits L2 as far as the data of all resident programs
    fits; what programs share is re-read once for each further wave as far as the launch's data does not fit.
    """
    once = load.programs * load.once
    spread = load.programs * load.spread
    distinct = min(once, float(launch_bytes)) if launch_bytes else once
    burst = min(spread * (DRAM_BURST - 1), max(0.0, (launch_bytes or math.inf) - distinct)) if spread else 0.0
    running = min(load.programs, load.resident * gpu.sms)
    again = load.programs * load.moved - once
    missed = again * _missing(running * load.once, gpu)
    shared = max(0.0, once - distinct)
    reload = min(shared, distinct * max(0.0, load.waves - 1)) * min(0.5, max(0.0, distinct / gpu.l2_bytes - 1))
    return (distinct + burst + missed + reload) / gbps / 1e3


def _missing(window: float, gpu: GpuSpec) -> float:
    """Share of re-reads that miss L2 when `window` bytes are used in turn: none in half of it, all beyond its size."""
    return min(1.0, max(0.0, 2 * window / gpu.l2_bytes - 1))


def l2(load: Load, gpu: GpuSpec) -> float:
    """Bytes that programs move over L2's bandwidth, and over the port of the busiest SM."""
    whole = load.programs * load.moved / (gpu.l2_gbps * L2_SHARE) / 1e3
    port = load.per_sm * load.moved / (PORT_BYTES * gpu.clock_ghz) / 1e3
    return max(whole, port)


def tensor(load: Load, compilation: Compilation, gpu: GpuSpec, tflops: float | None, *, achieved: bool) -> float:
    """FLOPs of dots over the matrix rate, on the busiest SM. 0 for dots that run on the ordinary units.

    `achieved` tells that `tflops` was measured, so that it contains what a kernel cannot reach anyway.
    """
    flops = load.total("dot_flops")
    if not flops or not tflops or compilation.tensor_path in {"none", "fma"}:
        return 0.0
    share = 1.0 if achieved else BEST_PATH_SHARE
    if compilation.tensor_path == "mma":
        share *= OLD_PATH_SHARE.get(compilation.arch.rstrip("af"), 1.0)
    per_sm = tflops * 1e6 / gpu.sms * share * tile_share(load, compilation)
    return load.per_sm * flops / per_sm


def tile_share(load: Load, compilation: Compilation) -> float:
    """Share of the matrix rate that a tile can feed: operands come from shared memory, so narrow tiles starve it."""
    tile = load.work.dot_tile
    if tile is None:
        return 1.0
    m, n, _ = tile
    if compilation.tensor_path in {"wgmma", "tcgen05"}:
        return math.sqrt(min(1.0, n / 128)) * min(1.0, m / 64)
    return math.sqrt(min(1.0, min(m, n) / 64))


def alu(load: Load, gpu: GpuSpec) -> float:
    """Warp instructions of the busiest SM over its issue rate and the rates of the units they need."""
    count = load.instructions.get
    cycles = max(
        sum(load.instructions.values()) / 4,
        (count("fma", 0) + count("alu", 0)) / 4,
        count("int", 0) / (2 * gpu.int_per_clock / WARP),  # half of them are multiply-adds, on the other unit
        # One request a clock; those to shared memory take two on average (128-bit accesses four, broadcasts one).
        count("load_global", 0) + count("store_global", 0) + count("async_copy", 0)
        + 2 * (count("load_shared", 0) + count("store_shared", 0)) + count("shuffle", 0),
    )  # fmt: skip
    return load.per_sm * cycles / ISSUE_SHARE / (gpu.clock_ghz * 1e3)


def special(load: Load, gpu: GpuSpec) -> float:
    """Special-function instructions of the busiest SM over that unit's rate; conversions share it."""
    slots = load.instructions.get("special", 0.0) + load.instructions.get("convert", 0.0) / 4
    return load.per_sm * slots * WARP / gpu.special_per_clock / (gpu.clock_ghz * 1e3)


def spill(load: Load, compilation: Compilation, gpu: GpuSpec, gbps: float) -> float:
    """Local-memory traffic of spilled registers through the SM's port to L2, and to memory when L2 cannot hold it.

    0 when nothing spills. L1 is left out: what spills in earnest does not fit beside shared memory.
    """
    if compilation.resources is None or not compilation.resources.spill_bytes:
        return 0.0
    accesses = load.instructions.get("load_local", 0.0) + load.instructions.get("store_local", 0.0)
    size = accesses * WARP * SPILL_BYTES
    frames = compilation.resources.spill_bytes * WARP * load.warps * min(load.programs, load.resident * gpu.sms)
    port = load.per_sm * size / (PORT_BYTES * gpu.clock_ghz * 1e3)
    return max(port, load.programs * size * _missing(frames, gpu) / gbps / 1e3)


def atomic(load: Load, gpu: GpuSpec) -> float:
    """Atomic requests, one after the other on each sector they meet at.

    Programs that run together are taken to be neighbours that hit the same sectors, as the usual order of programs
    makes them.
    """
    time = 0.0
    for line in load.work.lines.values():
        if not line.atomic_ops:
            continue
        sectors = max(1.0, line.atomic_targets / 8) if line.atomic_targets else math.inf
        each = min(sectors, max(1.0, WARP * line.moved_bytes / line.atomic_ops / 32))  # of one warp's request
        requests = load.programs * max(1.0, line.atomic_ops / WARP) * each
        if sectors is math.inf:
            sectors = requests
        own = min(sectors, requests / load.programs)
        rivals = max(1.0, load.programs * own / sectors)
        running = min(load.programs, load.resident * gpu.sms)
        active = min(sectors, own * max(1.0, running / rivals))
        # L2 as a whole handles about one request for each SM and two clocks.
        time += max(requests / active * ATOMIC_US, requests / (gpu.sms * gpu.clock_ghz * 1e3 / 2))
    return time


def latency(load: Load, compilation: Compilation, gpu: GpuSpec) -> float:
    """The serial chain of one program, times the rounds of programs that an SM runs one after the other."""
    rounds = max(1.0, load.waves) if load.waves > 4 else float(max(1, math.ceil(load.waves)))
    fences = 0.0
    chain = START_US
    threads = load.warps * WARP
    registers = compilation.resources.registers if compilation.resources else 64
    in_flight = max(16.0, registers)  # a quarter of the registers, in bytes, hold loads that are under way
    loops: dict[float, float] = {}
    for line in load.work.lines.values():
        if line.atomic_ops:
            fences += line.executions * 2 * FENCE_US
        if not line.load_bytes or not line.executions:
            continue
        loops[line.executions] = loops.get(line.executions, 0.0) + line.load_bytes / line.executions
    for times, size in loops.items():
        if times > 1 and size < 64:
            # A scalar walk: one miss for each 128-byte line of it, L1 otherwise.
            chain += times * (L1_US + gpu.latency_us * size / 128)
        elif times > 1 and load.pipelined:
            chain += gpu.latency_us * (1 + times / max(1, load.stages - 1))
        else:
            # Several passes over the same data are several loops, one after the other.
            passes = load.passes if times > 1 else 1.0
            chain += times * passes * gpu.latency_us * max(1.0, size / passes / threads / in_flight)
    return rounds * (chain + fences)
