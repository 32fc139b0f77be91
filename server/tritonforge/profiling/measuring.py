"""Timing the launches of calls under several programs, side by side on the GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Limits, Program, Time, TimeBeside, TimedProgram, TimeFresh, TimeResult
from tritonforge.jobs import JobError, Worker
from tritonforge.profiling.statistics import outliers

SEARCH_SAMPLES = 15
PROFILE_SAMPLES = 50
FINAL_SAMPLES = 60
_PROBE_BUDGET_S = 2.0
_PREPARING_S = 60.0
_MEMORY_BYTES = 64 << 30
_OUTLIER_SHARE = 0.05


@dataclass(frozen=True)
class Samples:
    """Samples in µs by the id of the first program's launch; `error` is set, and samples empty, when it failed.

    Launches of another program are matched to the first one's by their order in the call; where it makes more or fewer
    of them, their sum stands under the id of the call's first launch. `counts`: how often each launch is made, once
    where that is not said. `whole`: all calls together, each as often as it is made, with everything that their host
    code has the GPU do; empty where that was not asked for, or could not be timed. `memory`: it failed for want of
    memory beside the others. `made`: the launches as they were timed, in their order, with what an autotuner chose.
    """

    by_launch: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    error: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    whole: tuple[float, ...] = ()
    memory: bool = False
    made: tuple[RecordedLaunch, ...] = ()

    def total(self) -> tuple[float, ...]:
        """Return, sample by sample, the sum over all launches, each as often as it was made."""
        columns = [
            [sample * self.counts.get(launch, 1) for sample in samples] for launch, samples in self.by_launch.items()
        ]
        return tuple(sum(row) for row in zip(*columns, strict=False)) if columns else ()


async def measure(
    worker: Worker,
    programs: Sequence[Program],
    calls: Sequence[Call],
    *,
    kernel: str,
    identify: Callable[[RecordedLaunch], str],
    samples: int,
    budget_s: float,
    whole: bool = False,
    fresh: bool = False,
    beside: bool = False,
    narrow: bool = False,
) -> tuple[tuple[Samples, ...], tuple[str, ...]]:
    """Time the launches of `kernel` that every call makes under each program; the first program is the baseline.

    A program that ends the job (an illegal access, a kernel that never returns, a crash) is found by timing each alone,
    and the others are timed without it.

    Args:
        worker: of a target with a GPU.
        programs: what to load, the original first.
        calls: what to repeat.
        kernel: the qualified name of the kernel.
        identify: gives the id of one of the baseline's launches.
        samples: wanted for each launch and program.
        budget_s: seconds for all of it; fewer samples are taken when they would not fit.
        whole: time whole calls, too.
        fresh: in a process that has measured nothing before.
        beside: while other jobs compile, where the machine has cores enough for both.
        narrow: spare autotuners most of their configurations, as in `Time`.

    Returns:
        One `Samples` for each program, in order, and notes on what disturbed the measurement.

    Raises:
        JobError: when the first program cannot be timed.
    """
    collected: list[dict[str, tuple[float, ...]]] = [{} for _ in programs]
    made: list[list[RecordedLaunch]] = [[] for _ in programs]
    errors: list[str | None] = [None] * len(programs)
    crowded: set[int] = set()
    notes: list[str] = []
    wholes: list[list[tuple[float, ...]]] = [[] for _ in programs]
    usual = TimeBeside if beside else Time
    kind = TimeFresh if fresh else usual
    for call in calls:
        request = kind(
            tuple(programs), call, (kernel,), samples, budget_s / max(len(calls), 1), whole=whole, narrow=narrow
        )
        kind = usual  # of one measurement, the first call has a process made
        result = await _timed(worker, request)
        notes += [note for note in (*result.notes, *_about_outliers(result)) if note not in notes]
        ids = [identify(one.launch) for one in result.programs[0].launches]
        for index, timed in enumerate(result.programs):
            if timed.error or not timed.launches:
                errors[index] = errors[index] or timed.error or "it launches nothing"
                if timed.memory:
                    crowded.add(index)
                continue
            wholes[index].append(tuple(call.count * sample for sample in timed.whole))
            rows = [one.samples for one in timed.launches]
            if len(rows) != len(ids):
                rows = [tuple(sum(row) for row in zip(*rows, strict=False))]
            for launch_id, row, one in zip(ids, rows, timed.launches, strict=False):
                if launch_id not in collected[index]:
                    collected[index][launch_id] = row
                    made[index].append(one.launch)
    found = []
    for index, (times, how, rows, error) in enumerate(zip(collected, made, wholes, errors, strict=True)):
        # Of all calls or of none: a sum over some would be the time of another question.
        added = tuple(sum(row) for row in zip(*rows, strict=False)) if len(rows) == len(calls) else ()
        found.append(
            Samples({}, error, memory=index in crowded) if error else Samples(times, whole=added, made=tuple(how))
        )
    return tuple(found), tuple(notes)


async def _timed(worker: Worker, request: Time) -> TimeResult:
    """Do a `Time` job; where it fails because of one program, do it again without those that fail alone."""
    try:
        return await _run(worker, request)
    except JobError as error:
        crashed = error.kind == "crashed" and request.clock == "auto"
        if len(request.programs) == 1 and not crashed:
            raise
    if crashed:  # it may have been the profiler, which events do without
        return await _timed(worker, dataclasses.replace(request, clock="events"))
    reasons: list[str | None] = []
    for index, program in enumerate(request.programs):
        probe = dataclasses.replace(request, programs=(program,), samples=1, budget_s=_PROBE_BUDGET_S)
        try:
            await _run(worker, probe)
        except JobError as error:
            if index == 0:
                raise
            reasons.append(error.failure.message)
        else:
            reasons.append(None)
    sound = tuple(p for p, reason in zip(request.programs, reasons, strict=True) if reason is None)
    result = await _run(worker, dataclasses.replace(request, programs=sound))
    timed = iter(result.programs)
    entries = tuple(TimedProgram((), reason) if reason else next(timed) for reason in reasons)
    return TimeResult(entries, result.notes, result.clock)


async def _run(worker: Worker, request: Time) -> TimeResult:
    limits = Limits(seconds=request.budget_s + _PREPARING_S, memory_bytes=_MEMORY_BYTES)
    return await worker.run(request, limits=limits)


def _about_outliers(result: TimeResult) -> list[str]:
    counts = [(outliers(one.samples), one) for program in result.programs for one in program.launches if one.samples]
    found = [(count, one) for count, one in counts if count > _OUTLIER_SHARE * len(one.samples)]
    if not found:
        return []
    count, one = max(found, key=lambda pair: pair[0] / len(pair[1].samples))
    shares = f"{count} of {len(one.samples)} samples of {one.launch.kernel}"
    return [f"{shares} are outliers, up to {max(one.samples):.4g} us (another user of the GPU?)"]
