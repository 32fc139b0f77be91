"""The parts of the time model: for each resource, the µs that a launch would take if nothing else limited it."""

from __future__ import annotations

import math

from tritonforge.domain.compilation import Compilation
from tritonforge.prediction.constants import FITTED, Constants
from tritonforge.prediction.gpus import GpuSpec
from tritonforge.prediction.load import WARP, Load

DRAM_BURST = 2.0
"""Memory moves 64-byte pairs of 32-byte sectors: scattered accesses pay double."""
FENCE_US = 1.0
"""A GPU-wide memory fence, as atomics with acquire-release ordering have before and behind them."""
L1_US = 0.02
"""A load that hits L1 and its dependent use."""
SCHEDULERS = 4
MMA_CYCLES = 6.5
"""Between two `mma` of one scheduler (see `compilation.stalls`)."""
OLD_PATH_SHARE = {"sm_90": FITTED.old_share, "sm_100": 0.35, "sm_103": 0.35}
"""Of the matrix rate, what `mma` reaches where `wgmma` or `tcgen05` are the way to the full rate."""


def dram(load: Load, gpu: GpuSpec, gbps: float) -> float:
    """Bytes that reach memory over its bandwidth.

    At least every distinct byte once. What one program reads again hits L2 as far as the data of all resident programs
    fits; what programs share is re-read once for each further wave as far as the launch's data does not fit.
    """
    once = sum(stream.distinct(load.programs) for stream in load.streams)
    burst = 0.0
    again = 0.0
    for stream in load.streams:
        again += load.programs * (stream.requested - stream.once)
        if stream.spread:
            left = math.inf if stream.held is None else stream.held - stream.distinct(load.programs)
            burst += min(load.programs * stream.spread * (DRAM_BURST - 1), max(0.0, left))
    window = sum(stream.distinct(load.running) for stream in load.streams if not stream.store)
    pressure = min(0.5, max(0.0, once / gpu.l2_bytes - 1))
    waves = max(0.0, load.waves - 1)
    reload = 0.0
    for stream in load.streams:
        if not stream.store:
            whole = stream.distinct(load.programs)
            reload += min(load.programs * stream.once - whole, whole * waves) * pressure
    return (once + burst + again * _missing(window, gpu) + reload) / gbps / 1e3


def _missing(window: float, gpu: GpuSpec) -> float:
    """Share of re-reads that miss L2 when `window` bytes are used in turn: none in half of it, all beyond its size."""
    return min(1.0, max(0.0, 2 * window / gpu.l2_bytes - 1))


def l2(load: Load, gpu: GpuSpec, constants: Constants) -> float:
    """Bytes that programs move over L2's bandwidth, and over the port of the busiest SM."""
    whole = load.programs * load.moved / (gpu.l2_gbps * constants.l2_share) / 1e3
    port = load.busiest * load.moved / (constants.port_bytes * gpu.clock_ghz) / 1e3
    return max(whole, port)


def tensor(
    load: Load, compilation: Compilation, gpu: GpuSpec, tflops: float | None, constants: Constants, *, achieved: bool
) -> float:
    """FLOPs of dots over the matrix rate, on the busiest SM. 0 for dots that run on the ordinary units.

    `achieved` tells that `tflops` was measured, so that it contains what a kernel cannot reach anyway.
    """
    flops = load.total("dot_flops")
    if not flops or not tflops or compilation.tensor_path in {"none", "fma"}:
        return 0.0
    share = 1.0 if achieved else constants.matrix_share
    arch = compilation.arch.rstrip("af")
    if compilation.tensor_path == "mma" and arch in OLD_PATH_SHARE:
        share = constants.old_share if arch == "sm_90" else OLD_PATH_SHARE[arch]
    per_sm = tflops * 1e6 / gpu.sms * share
    return load.busiest * flops / per_sm


def alu(load: Load, gpu: GpuSpec) -> float:
    """Warp instructions of the busiest SM over its issue rate and the rates of the units they need."""
    count = load.instructions.get
    cycles = max(
        sum(load.instructions.values()) / 4,
        (count("fma", 0) + count("alu", 0)) / 4,
        count("int", 0) / (2 * gpu.int_per_clock / WARP),  # half of them are multiply-adds, on the other unit
        count("load_global", 0) + count("store_global", 0) + count("async_copy", 0) + count("shuffle", 0)
        + count("load_shared", 0) + count("store_shared", 0),
    )  # fmt: skip
    return load.busiest * cycles / (gpu.clock_ghz * 1e3)


def shared(load: Load, gpu: GpuSpec) -> float:
    """Wavefronts of shared memory on the busiest SM, bank conflicts and operands of the matrix unit included."""
    return load.busiest * load.wavefronts / (gpu.clock_ghz * 1e3)


def special(load: Load, gpu: GpuSpec) -> float:
    """Special-function instructions of the busiest SM over that unit's rate; conversions share it."""
    slots = load.instructions.get("special", 0.0) + load.instructions.get("convert", 0.0) / 4
    return load.busiest * slots * WARP / gpu.special_per_clock / (gpu.clock_ghz * 1e3)


def spill(load: Load, compilation: Compilation, gpu: GpuSpec, gbps: float, constants: Constants) -> float:
    """Local-memory traffic of spilled registers through the SM's port to L2, and to memory when L2 cannot hold it.

    0 when nothing spills. L1 is left out: what spills in earnest does not fit beside shared memory.
    """
    if compilation.resources is None or not compilation.resources.spill_bytes:
        return 0.0
    accesses = load.instructions.get("load_local", 0.0) + load.instructions.get("store_local", 0.0)
    size = accesses * WARP * constants.spill_bytes
    frames = compilation.resources.spill_bytes * WARP * load.warps * load.running
    port = load.busiest * size / (constants.port_bytes * gpu.clock_ghz * 1e3)
    return max(port, load.programs * size * _missing(frames, gpu) / gbps / 1e3)


def atomic(load: Load, gpu: GpuSpec, constants: Constants) -> float:
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
        active = min(sectors, own * max(1.0, load.running / rivals))
        # L2 as a whole handles about one request for each SM and two clocks.
        time += max(requests / active * constants.atomic_us, requests / (gpu.sms * gpu.clock_ghz * 1e3 / 2))
    return time


def latency(load: Load, compilation: Compilation, gpu: GpuSpec, constants: Constants) -> float:
    """The serial chain of one program, times the rounds of programs that an SM runs one after the other.

    However short it is, programs start one after the other.
    """
    rounds = max(1.0, load.waves) if load.waves > 4 else float(max(1, math.ceil(load.waves)))
    rounds += load.last  # one of the longest programs begins last, and runs alone
    chain = constants.start_us + constants.warp_us * load.warps + _fences(load, compilation)
    if load.pace is None:
        chain += _from_work(load, compilation, constants)
    else:
        mhz = gpu.clock_ghz * 1e3
        # The warps of one program take turns on its four schedulers.
        together = max(alu(load, gpu), special(load, gpu), shared(load, gpu)) / load.busiest
        crowd = max(1.0, load.warps / SCHEDULERS)
        matrix = load.pace.matrix
        if compilation.tensor_path == "wgmma":
            matrix *= crowd
        elif matrix:
            matrix = max(matrix, crowd * load.instructions.get("mma", 0.0) / load.warps * MMA_CYCLES)
        chain += max(load.pace.cycles * constants.pace / mhz, together) + matrix / mhz
        chain += load.pace.waits * constants.latency_us
    return max(rounds * chain, load.programs * constants.dispatch_us)


def _fences(load: Load, compilation: Compilation) -> float:
    """Fences of atomics, one before and one behind each, but for those that ask for no order."""
    relaxed = {one.line for one in compilation.atomics or () if one.ordering == "relaxed"}
    lines = load.work.lines.items()
    return sum(2 * FENCE_US * line.executions for n, line in lines if line.atomic_ops and n not in relaxed)


def _from_work(load: Load, compilation: Compilation, constants: Constants) -> float:
    """The waits of a program of which there is no disassembly, from what it loads in loops."""
    chain = 0.0
    threads = load.warps * WARP
    registers = compilation.resources.registers if compilation.resources else 64
    in_flight = max(16.0, registers)  # a quarter of the registers, in bytes, hold loads that are under way
    loops: dict[float, float] = {}
    for line in load.work.lines.values():
        if line.load_bytes and line.executions:
            loops[line.executions] = loops.get(line.executions, 0.0) + line.load_bytes / line.executions
    for times, size in loops.items():
        if times > 1 and size < 64:
            # A scalar walk: one miss for each 128-byte line of it, L1 otherwise.
            chain += times * (L1_US + constants.latency_us * size / 128)
        elif times > 1 and load.pipelined:
            chain += constants.latency_us * (1 + times / max(1, load.stages - 1))
        else:
            # Several passes over the same data are several loops, one after the other.
            passes = load.passes if times > 1 else 1.0
            chain += times * passes * constants.latency_us * max(1.0, size / passes / threads / in_flight)
    return chain
