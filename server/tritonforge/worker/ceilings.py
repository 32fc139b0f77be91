"""The `MeasureCeilings` job: the fastest this GPU reads, copies and multiplies, and what a launch costs at least."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from tritonforge.domain.messages import MeasureCeilings
from tritonforge.domain.profile import Ceilings
from tritonforge.worker.ceiling_kernels import read_l2, touch
from tritonforge.worker.failures import JobContext
from tritonforge.worker.on_device import is_cuda_error, need_gpu, typed_cuda_errors

_MEMORY_BYTES = 1 << 30
_SIDES = (4096, 8192)
_SETTLE_S = 0.05
_BLOCK = 2048
_BLOCKS_READ = 64
_PROGRAMS_PER_SM = 16
_LAUNCHES, _REPEATS = 100, 9
_HEAD_START = 8_000_000
"""Cycles, about 4 ms: more than queueing that many launches takes."""


def measure_ceilings(request: MeasureCeilings, context: JobContext) -> Ceilings:
    """Measure on random data (zeros run faster than real data), in bursts too short to heat the GPU.

    What the GPU or its torch lacks is left out.

    Raises:
        JobFailed: `unsupported`, when there is no GPU; `cuda-error` or `memory`, when it fails.
    """
    del request
    need_gpu()
    properties = torch.cuda.get_device_properties(0)
    with typed_cuda_errors():
        context.progress("Measuring memory bandwidth", 0.0)
        copy, read = _memory_gbps(min(_MEMORY_BYTES, int(properties.total_memory) // 6))
        context.progress("Measuring L2 bandwidth", 0.1)
        l2_bytes = int(getattr(properties, "L2_cache_size", 0) or 0)
        l2 = _where_possible(lambda: _l2_gbps(l2_bytes // 4, int(properties.multi_processor_count)))
        tflops: dict[str, float] = {}
        for i, (name, rate) in enumerate(_RATES.items()):
            context.progress(f"Measuring {name} matrix rate", 0.2 + 0.12 * i)
            found = _where_possible(rate)
            if found is not None:
                tflops[name] = found
        torch.cuda.empty_cache()
        context.progress("Measuring launch overhead", 0.95)
        launch_us = _launch_us()
    return Ceilings(
        gpu=str(properties.name),
        copy_gbps=copy,
        tflops=tflops,
        launch_us=launch_us,
        l2_gbps=l2,
        provenance="measured",
        read_gbps=read,
    )


def _where_possible(measured: Callable[[], float]) -> float | None:
    try:
        return measured()
    except (RuntimeError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        if is_cuda_error(error):
            raise
        return None  # a GPU without that type, a torch without that function


def _timed_ms(step: Callable[[], Any], repeats: int) -> float:
    """Return the median time of one step in ms, measured by events around each of `repeats` queued steps."""
    _settle(step)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(float(a.elapsed_time(b)) for a, b in itertools.pairwise(marks))


def _settle(step: Callable[[], Any]) -> None:
    stop = time.perf_counter() + _SETTLE_S
    for i in range(1000):
        step()
        torch.cuda.synchronize()
        if i >= 2 and time.perf_counter() > stop:
            return


def _memory_gbps(n_bytes: int) -> tuple[float, float]:
    """Return GB/s of copying and of reading alone, over buffers far larger than L2."""
    source = torch.rand(n_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    sink = torch.empty((), device="cuda")
    copy_ms = _timed_ms(lambda: target.copy_(source), 15)
    read_ms = _timed_ms(lambda: torch.sum(source, 0, out=sink), 15)
    return 2 * n_bytes / copy_ms / 1e6, n_bytes / read_ms / 1e6


def _l2_gbps(n_bytes: int, sms: int) -> float:
    """Read a buffer that fits L2 over and over, past L1: copies that small would mostly be launches."""
    blocks = n_bytes // (4 * _BLOCK)
    data = torch.rand(blocks * _BLOCK, device="cuda")
    programs = sms * _PROGRAMS_PER_SM
    sums = torch.empty(programs, device="cuda")
    ms = _timed_ms(lambda: read_l2[(programs,)](data, sums, blocks, _BLOCKS_READ, BLOCK=_BLOCK, num_warps=4), 15)
    return 4 * _BLOCK * _BLOCKS_READ * programs / ms / 1e6


def _matmul(dtype: Any, *, tf32: bool = False) -> float:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    sides = _SIDES if dtype != torch.float32 or tf32 else _SIDES[:1]
    try:
        return max(_rate(n, _multiplied(n, dtype)) for n in sides)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _multiplied(n: int, dtype: Any) -> Callable[[], Any]:
    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(n, n, device="cuda", dtype=dtype)
    return lambda: torch.matmul(a, b, out=out)


def _fp8(n: int) -> Callable[[], Any]:
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def _int8(n: int) -> Callable[[], Any]:
    a, b = (torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b.t())


def _rate(n: int, step: Callable[[], Any]) -> float:
    return 2 * n**3 / _timed_ms(step, 15) / 1e9


_RATES: dict[str, Callable[[], float]] = {
    "fp32": lambda: _matmul(torch.float32),
    "tf32": lambda: _matmul(torch.float32, tf32=True),
    "fp16": lambda: _matmul(torch.float16),
    "bf16": lambda: _matmul(torch.bfloat16),
    "fp8": lambda: max(_rate(n, _fp8(n)) for n in _SIDES),
    "int8": lambda: max(_rate(n, _int8(n)) for n in _SIDES),
}


def _launch_us() -> float:
    """Return what a launch takes of the device at least: the interval at which queued kernels of one store follow."""
    one = torch.zeros(1, device="cuda")
    kernel = touch[(1,)](one, num_warps=1)
    intervals = []
    for _ in range(_REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_HEAD_START)  # the host queues them all meanwhile, so it cannot be what is waited for
        start.record()
        for _ in range(_LAUNCHES):
            kernel[(1, 1, 1)](one)
        end.record()
        end.synchronize()
        intervals.append(start.elapsed_time(end) * 1e3 / _LAUNCHES)
    return float(statistics.median(intervals))
