"""The `Time` job: measure each launch of a call under several programs, interleaved, from a cold L2."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tritonforge.domain.launch import RecordedLaunch
from tritonforge.domain.messages import Program, Time, TimedLaunch, TimedProgram, TimeResult
from tritonforge.worker.calling import runnable, seed_everything
from tritonforge.worker.compiling import compile_error, wanted
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.fakecuda.patches import Patches
from tritonforge.worker.launching import LaunchEvent, bind, describe_launch, resolve_grid, user_frame
from tritonforge.worker.loading import load, position_of
from tritonforge.worker.on_device import is_cuda_error, need_gpu
from tritonforge.worker.rebuilding import rebuild
from tritonforge.worker.values import Describing, storage_address

_FLUSH_BYTES = 256 << 20
_WARM_UP_S = 0.3
_LEAST_ROUNDS = 5


@dataclass
class _Captured:
    """One launch that can be repeated: how, and what has to be put back before."""

    launch: RecordedLaunch
    start: Callable[[], Any]
    restore: list[tuple[Any, Any]]
    samples: list[float] = field(default_factory=list)

    def reset(self) -> None:
        for tensor, saved in self.restore:
            tensor.copy_(saved)


def time_programs(request: Time, context: JobContext) -> TimeResult:
    """Answer a `Time` request.

    Each round times every launch of every program once, in turn, so that clocks and heat treat them alike. Before a
    sample, buffers that the launch changes are put back, and 256 MB or twice the L2 are read. The launch is queued
    while the GPU still reads, so the time between its two events has no host work in it.

    Raises:
        JobFailed: `unsupported` without a GPU; `cuda-error` when a program breaks the context.
    """
    need_gpu()
    began = time.perf_counter()
    prepared: list[tuple[list[_Captured], str | None]] = []
    for i, program in enumerate(request.programs):
        context.progress(f"Preparing program {i + 1} of {len(request.programs)}", 0.3 * i / len(request.programs))
        try:
            prepared.append((_capture(program, request), None))
        except _NotRun as error:
            prepared.append(([], str(error)))
    rounds = [c for captured, _ in prepared for c in captured]
    notes = _measure(rounds, request.samples, request.budget_s, began, context) if rounds else ()
    return TimeResult(
        tuple(
            TimedProgram(tuple(TimedLaunch(c.launch, tuple(c.samples), bool(c.restore)) for c in captured), error)
            for captured, error in prepared
        ),
        notes,
    )


class _NotRun(Exception):
    """A program could not be run once; the text says why."""


def _capture(program: Program, request: Time) -> list[_Captured]:
    """Run the call twice: to compile and tune, then on fresh arguments to take its launches."""
    captured: list[_Captured] = []
    last: list[LaunchEvent] = []
    try:
        loaded = load(program)
        with loaded.active():
            repeated = runnable(loaded, request.call)
            for taking in (False, True):
                rebuilt = rebuild(request.call, device="cuda", names=repeated.names, main=loaded.module)
                seed_everything(request.call.seed)
                scope = _taking(program, request, captured, last) if taking else contextlib.nullcontext()
                with scope:
                    repeated.run(rebuilt.arguments, rebuilt.keywords)
                torch.cuda.synchronize()
    except JobFailed as failed:
        if failed.failure.kind in {"unsupported", "user-error"}:
            raise _NotRun(failed.failure.message) from failed
        raise
    except (Exception, SystemExit) as error:
        if is_cuda_error(error):
            raise JobFailed("cuda-error", f"The program broke the GPU's context: {error}") from error
        raise _NotRun(_why(error, program, last)) from error
    return captured


def _why(error: BaseException, program: Program, last: list[LaunchEvent]) -> str:
    if type(error).__name__ in {"CompilationError", "CompileTimeAssertionFailure", "PTXASError"} and last:
        return compile_error(error, last[-1])
    file, line = position_of(error, program)
    said = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {said}" + (f" ({file}:{line})" if line else "")


@contextlib.contextmanager
def _taking(program: Program, request: Time, captured: list[_Captured], last: list[LaunchEvent]) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    patches = Patches()
    run_jit, run_tuner = JITFunction.run, Autotuner.run
    tuning = [0]

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or (request.kernels and not wanted(self.fn.__qualname__, request.kernels)):
            return run_jit(self, *args, grid=grid, warmup=warmup, **kwargs)
        bound, options = bind(self, args, kwargs)
        extents = resolve_grid(grid, bound)
        event = LaunchEvent(self, args, kwargs, bound, options, extents, user_frame(), tuning[0] > 0)
        last.append(event)
        before = _copies(bound)
        kernel = run_jit(self, *args, grid=extents, warmup=False, **kwargs)
        torch.cuda.synchronize()
        launch = describe_launch(event, program.root, Describing(values=False))
        captured.append(_Captured(launch, _starter(event, kernel, run_jit), _changed(before)))
        return kernel

    def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        at = len(captured)
        tuning[0] += 1
        try:
            result = run_tuner(self, *args, **kwargs)
        finally:
            tuning[0] -= 1
        captured[at:] = captured[-1:] if len(captured) > at else []  # what came before was tuning
        return result

    patches.set(JITFunction, "run", run)
    patches.set(Autotuner, "run", run_tuned)
    try:
        yield
    finally:
        patches.restore()


def _starter(event: LaunchEvent, kernel: Any, run_jit: Any) -> Callable[[], Any]:
    """Return what repeats a launch with the least host work: the compiled kernel itself where that works."""
    kernel = kernel.result() if hasattr(kernel, "result") else kernel
    values = tuple(event.bound.values())
    direct = kernel[event.grid] if kernel is not None and hasattr(kernel, "__getitem__") else None
    if direct is not None:
        try:
            direct(*values)
            torch.cuda.synchronize()
        except TypeError:
            pass
        else:
            return lambda: direct(*values)
    return lambda: run_jit(event.kernel, *event.args, grid=event.grid, warmup=False, **event.kwargs)


def _copies(bound: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Copy the memory of each distinct storage among the arguments (as bytes, whatever views share it)."""
    found: dict[int, Any] = {}
    for value in bound.values():
        for tensor in _tensors(value):
            found.setdefault(storage_address(tensor), tensor)
    copies = []
    for tensor in found.values():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        copies.append((raw, raw.clone()))
    return copies


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        yield value.base.detach()


def _changed(copies: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return [(raw, saved) for raw, saved in copies if not torch.equal(raw, saved)]


def _measure(
    launches: list[_Captured], samples: int, budget_s: float, began: float, context: JobContext
) -> tuple[str, ...]:
    l2 = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 0)
    n_bytes = max(_FLUSH_BYTES, 2 * l2)
    flush = torch.rand(n_bytes // 4, device="cuda")
    sink = torch.empty((), device="cuda")
    settle(lambda: [_sample(launch, flush, sink) for launch in launches], _WARM_UP_S)
    flush_times: list[float] = []
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    done = 0
    try:
        for i in range(samples):
            if i >= min(_LEAST_ROUNDS, samples) and time.perf_counter() - began > budget_s:
                break
            for launch in launches:
                events = _sample(launch, flush, sink)
                events[2].synchronize()
                flush_times.append(events[0].elapsed_time(events[1]))
                launch.samples.append(events[1].elapsed_time(events[2]) * 1e3)
            done += 1
            if i % 8 == 0:
                context.progress(f"Timing, round {i + 1} of {samples}", 0.3 + 0.7 * i / samples)
    finally:
        if enabled:
            gc.enable()
    notes = [f"L2 flushed before every sample by reading {n_bytes >> 20} MB"]
    if done < samples:
        notes.append(f"stopped after {done} of {samples} rounds to keep within {budget_s:g} s")
    notes.append(f"an empty interval between events reads {_event_overhead_us(flush, sink):.1f} us")
    drift = _drift(flush_times)
    if drift > 1.03:
        notes.append(f"the GPU slowed down by {100 * (drift - 1):.0f} % while measuring (clocks or another user)")
    return tuple(notes)


def _sample(launch: _Captured, flush: Any, sink: Any) -> tuple[Any, Any, Any]:
    begin, start, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    launch.reset()
    begin.record()
    torch.sum(flush, 0, out=sink)
    start.record()
    launch.start()
    end.record()
    return begin, start, end


def _event_overhead_us(flush: Any, sink: Any) -> float:
    times: list[float] = []
    for _ in range(10):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.sum(flush, 0, out=sink)
        start.record()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) * 1e3)
    return statistics.median(times)


def _drift(times: list[float]) -> float:
    third = len(times) // 3
    if third < 3:
        return 1.0
    return statistics.median(times[-third:]) / statistics.median(times[:third])


def settle(step: Callable[[], Any], seconds: float) -> None:
    """Repeat a step until clocks are up: at least three times, for at most `seconds` after that."""
    stop = time.perf_counter() + seconds
    for i in range(1000):
        step()
        torch.cuda.synchronize()
        if i >= 2 and time.perf_counter() > stop:
            return
