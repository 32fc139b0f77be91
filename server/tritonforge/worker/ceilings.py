"""The `MeasureCeilings` job: the fastest this GPU copies and multiplies, and what a launch costs at least."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import torch

from tritonforge.domain.messages import MeasureCeilings
from tritonforge.domain.profile import Ceilings
from tritonforge.worker.failures import JobContext
from tritonforge.worker.on_device import need_gpu
from tritonforge.worker.timing import settle

_COPY_BYTES = 1 << 30
_MATRIX = (4096, 8192)


def measure_ceilings(request: MeasureCeilings, context: JobContext) -> Ceilings:
    """Measure on random data (zeros run faster than real data).

    Raises:
        JobFailed: `unsupported`, when there is no GPU.
    """
    del request
    need_gpu()
    properties = torch.cuda.get_device_properties(0)
    context.progress("Measuring copy bandwidth", 0.0)
    copy = _copy_gbps(min(_COPY_BYTES, int(properties.total_memory) // 6))
    l2 = int(getattr(properties, "L2_cache_size", 0) or 0)
    context.progress("Measuring L2 bandwidth", 0.2)
    l2_gbps = _l2_gbps(l2 // 6) if l2 else None
    tflops: dict[str, float] = {}
    kinds: dict[str, tuple[Any, bool]] = {
        "fp16": (torch.float16, False),
        "bf16": (torch.bfloat16, False),
        "tf32": (torch.float32, True),
        "fp32": (torch.float32, False),
    }
    for i, (name, (dtype, tf32)) in enumerate(kinds.items()):
        context.progress(f"Measuring {name} matrix rate", 0.3 + 0.15 * i)
        with contextlib.suppress(RuntimeError):  # a GPU without that type
            tflops[name] = max(_matmul_tflops(n, dtype, tf32) for n in _MATRIX)
    return Ceilings(
        gpu=str(properties.name),
        copy_gbps=copy,
        tflops=tflops,
        launch_us=_launch_us(),
        l2_gbps=l2_gbps,
        provenance="measured",
    )


def _timed_ms(step: Callable[[], Any], repeats: int) -> float:
    """Return the median time of one step in ms, measured by events around each of `repeats` queued steps."""
    settle(step, 0.1)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(float(a.elapsed_time(b)) for a, b in itertools.pairwise(marks))


def _copy_gbps(n_bytes: int) -> float:
    source = torch.rand(n_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    ms = _timed_ms(lambda: target.copy_(source), 15)
    return 2 * n_bytes / ms / 1e6


def _l2_gbps(n_bytes: int) -> float:
    """Copy between two buffers that fit the L2 together, many times in one graph: single copies are too short."""
    source = torch.rand(n_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    copies = 50
    target.copy_(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(copies):
            target.copy_(source)
    ms = _timed_ms(graph.replay, 10)
    return 2 * n_bytes * copies / ms / 1e6


def _matmul_tflops(n: int, dtype: Any, tf32: bool) -> float:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        a = torch.randn(n, n, device="cuda", dtype=dtype)
        b = torch.randn(n, n, device="cuda", dtype=dtype)
        out = torch.empty(n, n, device="cuda", dtype=dtype)
        slow = dtype == torch.float32 and not tf32
        ms = _timed_ms(lambda: torch.matmul(a, b, out=out), 5 if slow and n > 4096 else 15)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * n**3 / ms / 1e9


def _launch_us() -> float:
    """Return what the smallest kernel reads between two events when the GPU was busy while it was queued."""
    busy = torch.rand(64 << 20, device="cuda")
    sink = torch.empty((), device="cuda")
    one = torch.zeros(1, device="cuda")
    times: list[float] = []
    for _ in range(30):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.sum(busy, 0, out=sink)
        start.record()
        one.add_(1)
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) * 1e3)
    return statistics.median(times[5:])
