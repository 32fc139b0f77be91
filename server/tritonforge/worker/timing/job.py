"""The `Time` job: measure each launch of a call under several programs, interleaved, from a cold L2."""

from __future__ import annotations

import contextlib
import time

import torch

from tritonforge.domain.messages import Time, TimedLaunch, TimedProgram, TimeResult
from tritonforge.worker.compiled_once import share_compilations
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.on_device import need_gpu, typed_cuda_errors
from tritonforge.worker.timing.measuring import measure
from tritonforge.worker.timing.narrowing import Narrowing
from tritonforge.worker.timing.taking import NotRun, Taken, take
from tritonforge.worker.timing.whole import whole_calls


def time_programs(request: Time, context: JobContext) -> TimeResult:
    """Answer a `Time` request.

    Each round times every launch of every program once, in random order, so that clocks, heat and neighbours treat them
    alike. Before a sample, buffers that the launch changes are put back and L2 is flushed; neither is in the time. All
    of it is queued while the GPU is kept waiting, and times are read from the device, so that nothing the host does
    can be in them.

    Raises:
        JobFailed: `unsupported` without a GPU; `cuda-error` when a program breaks the context; `memory` when the GPU
            has too little of it for every program.
    """
    need_gpu()
    share_compilations()
    began, narrowing = time.perf_counter(), Narrowing()
    with typed_cuda_errors():
        prepared: list[tuple[list[Taken], NotRun | None]] = []
        for i, program in enumerate(request.programs):
            message = f"Preparing program {i + 1} of {len(request.programs)}"
            context.progress(message, 0.3 * i / len(request.programs))
            try:
                with _tuning(request, narrowing, first=i == 0):
                    prepared.append((take(program, request), None))
            except NotRun as error:
                prepared.append(([], error))
                torch.cuda.empty_cache()
        launches = [one for taken, _ in prepared for one in taken]
        if not launches and any(error is not None and error.memory for _, error in prepared):
            raise JobFailed("memory", next(str(error) for _, error in prepared if error is not None and error.memory))
        measured = measure(launches, request, began, context) if launches else None
        runs = [error is None and bool(taken) for taken, error in prepared]
        sound = [program for program, does in zip(request.programs, runs, strict=True) if does]
        with _tuning(request, narrowing, first=False):  # the original chose among all by now
            times, said = whole_calls(sound, request) if request.whole and sound else ([() for _ in sound], ())
    whole = iter(times)
    samples = iter(measured.samples if measured else ())
    return TimeResult(
        tuple(
            TimedProgram(
                tuple(TimedLaunch(one.launch, next(samples), bool(one.restore)) for one in taken),
                str(error) if error else None,
                next(whole) if does else (),
                memory=error is not None and error.memory,
            )
            for (taken, error), does in zip(prepared, runs, strict=True)
        ),
        (*(measured.notes if measured else ()), *said),
        measured.clock if measured else "events",
    )


def _tuning(request: Time, narrowing: Narrowing, *, first: bool) -> contextlib.AbstractContextManager[None]:
    if not request.narrow:
        return contextlib.nullcontext()
    return narrowing.noting() if first else narrowing.narrowed()
