"""Timing the launches of calls under several programs, side by side on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.domain.messages import Limits, Program, Time
from tritonforge.jobs import Worker

SEARCH_SAMPLES = 15
PROFILE_SAMPLES = 50
FINAL_SAMPLES = 60


@dataclass(frozen=True)
class Samples:
    """Samples in µs by the id of the first program's launch; `error` is set, and samples empty, when it failed.

    Launches of another program are matched to the first one's by their order in the call; where it makes more or fewer
    of them, their sum stands under the id of the call's first launch.
    """

    by_launch: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    error: str | None = None

    def total(self) -> tuple[float, ...]:
        """Return, sample by sample, the sum over all launches."""
        columns = list(self.by_launch.values())
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
) -> tuple[tuple[Samples, ...], tuple[str, ...]]:
    """Time the launches of `kernel` that every call makes under each program; the first program is the baseline.

    Args:
        worker: of a target with a GPU.
        programs: what to load, the original first.
        calls: what to repeat.
        kernel: the qualified name of the kernel.
        identify: gives the id of one of the baseline's launches.
        samples: wanted for each launch and program.
        budget_s: seconds for all of it; fewer samples are taken when they would not fit.

    Returns:
        One `Samples` for each program, in order, and notes on what disturbed the measurement.
    """
    collected: list[dict[str, tuple[float, ...]]] = [{} for _ in programs]
    errors: list[str | None] = [None] * len(programs)
    notes: list[str] = []
    for call in calls:
        request = Time(tuple(programs), call, (kernel,), samples, budget_s / max(len(calls), 1))
        limits = Limits(seconds=budget_s + 60.0, memory_bytes=64 << 30)
        result = await worker.run(request, limits=limits)
        notes += [note for note in result.notes if note not in notes]
        ids = [identify(one.launch) for one in result.programs[0].launches]
        for index, timed in enumerate(result.programs):
            if timed.error or not timed.launches:
                errors[index] = errors[index] or timed.error or "it launches nothing"
                continue
            rows = [one.samples for one in timed.launches]
            if len(rows) != len(ids):
                rows = [tuple(sum(row) for row in zip(*rows, strict=False))]
            for launch_id, row in zip(ids, rows, strict=False):
                collected[index].setdefault(launch_id, row)
    return (
        tuple(Samples({}, error) if error else Samples(times) for times, error in zip(collected, errors, strict=True)),
        tuple(notes),
    )
