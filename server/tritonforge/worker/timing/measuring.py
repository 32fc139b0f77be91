"""Measuring launches by one clock or the other, and saying what there is to say about it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tritonforge.domain.messages import Clock, Time
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.timing import judging
from tritonforge.worker.timing.health import Health
from tritonforge.worker.timing.queueing import Bench
from tritonforge.worker.timing.records import NoRecords, recording
from tritonforge.worker.timing.rounds import WARM_UP_S, Repeatable, Rounds, take_rounds, undisturbed, warm_up

_SLOWED = 1.03
Around = Callable[[int], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Measured:
    """Samples in µs of each launch, in the order the launches were given; sample i of all was taken in one round."""

    samples: tuple[tuple[float, ...], ...]
    clock: Clock
    notes: tuple[str, ...]


def measure(launches: Sequence[Repeatable], request: Time, began: float, context: JobContext) -> Measured:
    """Measure every launch.

    Args:
        launches: of all programs.
        request: says how many samples, in what time, by which clock.
        began: when the job began, by `time.perf_counter`.
        context: of the job, for progress.

    Raises:
        JobFailed: `unsupported`, when a clock is asked for that is not there.
    """
    bench, health = Bench(), Health()

    def on_round(count: int) -> None:
        context.progress(f"Timing, round {count} of {request.samples}", 0.3 + 0.7 * count / request.samples)

    def rounds(step_us: float, *, strict: bool, around: Around = _bare) -> Rounds:
        batches = [judging.batch_size(time_us - less, step_us) for time_us in first]
        until = began + request.budget_s
        return take_rounds(
            bench, health, launches, batches,
            wanted=request.samples, until=until, strict=strict, around=around, on_round=on_round,
        )  # fmt: skip

    with undisturbed():
        settled, first = warm_up(bench, launches)
        empty = bench.empty_readings()
        less = statistics.median(empty)
        notes = [f"L2 flushed before every launch by reading {bench.flush_bytes >> 20} MB, launches in random order"]
        if not settled:
            notes.append(f"the GPU had not settled after {WARM_UP_S:g} s of warm-up")
        clock: Clock = "cupti"
        try:
            if request.clock == "events":
                raise NoRecords("as was asked for")  # noqa: TRY301 - one way to fall back
            with recording() as tape:
                taken = rounds(judging.FINEST_CLOCK_US, strict=False, around=tape.around)
            durations = tape.read(taken.names)
            samples = taken.samples(lambda place, _: durations[place])
            notes.append(_how_records_differ(taken, samples))
        except NoRecords as why:
            if request.clock == "cupti":
                raise JobFailed("unsupported", f"Times cannot be read from CUPTI: {why}.") from why
            clock = "events"
            taken = rounds(judging.resolution_us(empty), strict=True)
            samples = taken.samples(lambda _, queued: max(queued.between_us - less, judging.FINEST_CLOCK_US))
            notes.append(f"times are between device events, less the {less:.1f} us of an empty interval ({why})")
            if taken.late_kept:
                notes.append(
                    f"the host was late in {taken.late_kept} of {len(taken.kept)} rounds: times may be too long"
                )
    largest = max(len(one) for one in taken.kept[0])
    if largest > 1:
        notes.append(f"samples of short launches are means of up to {largest} launches, each timed by itself")
    if len(taken.kept) < request.samples:
        short = f"to keep within {request.budget_s:g} s" if taken.out_of_time else "as the host was late too often"
        notes.append(f"{len(taken.kept)} of {request.samples} rounds, {short}")
    return Measured(samples, clock, (*notes, *health.notes(), *_slowing(taken)))


def _bare(_place: int) -> AbstractContextManager[Any]:
    return nullcontext()


def _how_records_differ(taken: Rounds, samples: Sequence[Sequence[float]]) -> str:
    """Say which clock it is, and how much more the other reads: what a launch costs beside its kernel."""
    between = taken.samples(lambda _, queued: queued.between_us)
    more = statistics.median(
        statistics.median(events) - statistics.median(records) for events, records in zip(between, samples, strict=True)
    )
    return f"times are the device's own, by CUPTI; events around the launch read {more:.1f} us more"


def _slowing(taken: Rounds) -> list[str]:
    slower = max(judging.drift(taken.flush_us), 1.0 / max(judging.drift(taken.clock_mhz), 1e-3))
    if slower <= _SLOWED:
        return []
    return [f"the GPU slowed down by {100 * (slower - 1):.0f} % while measuring (clocks or another user)"]
