"""Timing whole calls: all that the host function has the GPU do, not only the launches of one kernel.

What a rewrite moves into host code (a copy of an operand, the sum of partial results) is no launch of the kernel. Here
it is in the time: from when the GPU begins the call's first work to when it ends its last.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.domain.messages import Program, Time
from tritonforge.worker.calling import MAIN, MODULE, runnable, seed_everything
from tritonforge.worker.failures import JobFailed
from tritonforge.worker.loading import load
from tritonforge.worker.on_device import is_cuda_error
from tritonforge.worker.rebuilding import rebuild
from tritonforge.worker.timing.health import Health
from tritonforge.worker.timing.judging import FINEST_CLOCK_US
from tritonforge.worker.timing.queueing import Bench
from tritonforge.worker.timing.rounds import take_rounds, undisturbed, warm_up
from tritonforge.worker.timing.taking import changed_among, copies_of, said

_SHARE = 0.5
"""Of the job's seconds, what may be spent on this after the launches were timed."""
_LEAST_S = 2.0
_CALIBRATIONS = 12


@dataclass(frozen=True)
class WholeCall:
    """A call that can be repeated: `restore` is what it changes of its arguments, with what they held before."""

    start: Callable[[], Any]
    restore: list[tuple[Any, Any]]
    name: str = "call"

    def reset(self) -> None:
        """Put back what the call changes."""
        for tensor, saved in self.restore:
            tensor.copy_(saved)


def whole_calls(programs: Sequence[Program], request: Time) -> tuple[list[tuple[float, ...]], tuple[str, ...]]:
    """Time the call of `request` under each program, in random order, from a cold L2; returns samples and notes.

    Samples are in µs; none for any program where one of them cannot be repeated, since only what was measured together
    can be compared.

    Raises:
        JobFailed: `cuda-error`, when a program breaks the context.
    """
    none: list[tuple[float, ...]] = [() for _ in programs]
    if request.call.function in {MAIN, MODULE}:  # a script does much beside, and more than once is too often
        return none, ()
    try:
        calls = [_whole(program, request) for program in programs]
        until = time.perf_counter() + max(_LEAST_S, _SHARE * request.budget_s)
        return time_calls(Bench(), Health(), calls, wanted=request.samples, until=until), ()
    except (Exception, SystemExit) as error:
        if is_cuda_error(error):
            raise JobFailed("cuda-error", f"A program broke the GPU's context: {said(error)}") from error
        return none, (f"whole calls could not be timed: {type(error).__name__}: {said(error)}",)


def _whole(program: Program, request: Time) -> WholeCall:
    loaded = load(program)
    with loaded.active():
        repeated = runnable(loaded, request.call)
        rebuilt = rebuild(request.call, device="cuda", names=repeated.names, main=loaded.module)

    def start() -> None:
        with loaded.active():
            repeated.run(rebuilt.arguments, rebuilt.keywords)

    seed_everything(request.call.seed)
    before = copies_of({"arguments": tuple(rebuilt.arguments), "keywords": tuple(rebuilt.keywords.values())})
    start()
    torch.cuda.synchronize()
    return WholeCall(start, changed_among(before))


def time_calls(
    bench: Bench, health: Health, calls: Sequence[WholeCall], *, wanted: int, until: float
) -> list[tuple[float, ...]]:
    """Take `wanted` rounds of samples of every call, fewer when it is past `until` (by `time.perf_counter`)."""
    with undisturbed():
        warm_up(bench, calls)
        empty = statistics.median(bench.empty_readings())
        # Host code may take longer than the GPU is kept waiting, above all where it is Python that does much.
        for _ in range(_CALIBRATIONS):
            row = [bench.queue(one.start, one.reset) for one in calls]
            bench.wait()
            if not any(queued.late for queued in row):
                break
            bench.wait_longer()
        # A call that waits for the GPU itself is always late: its host's time is part of it, for every version alike.
        taken = take_rounds(
            bench, health, calls, [1] * len(calls),
            wanted=wanted, until=until, strict=False,
            around=lambda _: nullcontext(), on_round=lambda _: None,
        )  # fmt: skip
    return list(taken.samples(lambda _, queued: max(queued.between_us - empty, FINEST_CLOCK_US)))
