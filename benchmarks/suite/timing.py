"""Timing whole functions side by side on the GPU, by the protocol of TritonForge's own measurements.

A function may launch any number of kernels, of any library. Its time is the sum of the device's own records of them
(CUPTI through Triton's profiler), so nothing of the host is in it. Functions take turns in random order, with L2
flushed before each; without CUPTI, events around each call take its place, gaps between kernels included.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonforge.worker.timing import judging
from tritonforge.worker.timing.health import Health
from tritonforge.worker.timing.queueing import Bench
from tritonforge.worker.timing.records import NoRecords, recording
from tritonforge.worker.timing.rounds import take_rounds, undisturbed, warm_up

_SCOPE = "tritonforge-"


@dataclass(frozen=True)
class Whole:
    """A function to be timed."""

    name: str
    start: Callable[[], Any]

    def reset(self) -> None:
        """Do nothing: functions of the suite leave their arguments as they are."""


@dataclass(frozen=True)
class Times:
    """Samples in µs by name; sample i of all was taken in one round."""

    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    clock: str = ""
    notes: tuple[str, ...] = ()


def time_side_by_side(functions: Mapping[str, Callable[[], Any]], samples: int, budget_s: float) -> Times:
    """Time every function, each of which must have run once before.

    Args:
        functions: by name.
        samples: rounds wanted.
        budget_s: seconds after which fewer are enough.
    """
    began = time.perf_counter()
    bench, health = Bench(), Health()
    wholes = [Whole(name, start) for name, start in functions.items()]
    with undisturbed():
        settled, first = warm_up(bench, wholes)
        less = statistics.median(bench.empty_readings())
        batches = [judging.batch_size(one - less, judging.FINEST_CLOCK_US) for one in first]
        notes = [] if settled else ["the GPU had not settled when timing began"]

        def rounds(*, strict: bool, around: Callable[[int], Any]) -> Any:
            return take_rounds(
                bench, health, wholes, batches, wanted=samples, until=began + budget_s, strict=strict, around=around,
                on_round=lambda _count: None,
            )  # fmt: skip

        try:
            with recording() as tape:
                taken = rounds(strict=False, around=tape.around)
            durations = whole_durations(tape.root, taken.names)
            rows, clock = taken.samples(lambda place, _: durations[place]), "cupti"
        except NoRecords as why:
            taken = rounds(strict=True, around=lambda _place: contextlib.nullcontext())
            rows = taken.samples(lambda _, queued: max(queued.between_us - less, judging.FINEST_CLOCK_US))
            clock = "events"
            notes.append(f"times are between device events ({why})")
    if len(taken.kept) < samples:
        notes.append(f"{len(taken.kept)} of {samples} rounds")
    named = dict(zip(functions, rows, strict=True))
    return Times(named, clock, (*notes, *health.notes()))


def whole_durations(root: Any, names: list[str]) -> list[float]:
    """Read what the kernels of each call took together, in µs, from the tree that Triton's profiler writes.

    Args:
        root: the parsed file: nodes of `frame`, `metrics` and `children`; call `i` has the scope `tritonforge-i`.
        names: of the function that each call was of.

    Raises:
        NoRecords: when calls of one function did not all run the same kernels: some records are missing, then.
    """
    kernels: list[Counter[str]] = [Counter() for _ in names]
    times = [0.0] * len(names)
    todo: list[tuple[Any, int | None]] = [(node, None) for node in root]
    while todo:
        node, place = todo.pop()
        if not isinstance(node, dict):
            continue
        name = str(node.get("frame", {}).get("name", ""))
        metrics = node.get("metrics", {})
        number = name.removeprefix(_SCOPE)
        if name.startswith(_SCOPE) and number.isdigit() and int(number) < len(names):
            place = int(number)
        elif place is not None and metrics.get("count", 0):
            kernels[place][name] += int(metrics["count"])
            times[place] += float(metrics.get("time (ns)", 0)) / 1e3
        todo += [(child, place) for child in node.get("children", ())]
    expected: dict[str, Counter[str]] = {}
    for name, seen in zip(names, kernels, strict=True):
        if not seen or expected.setdefault(name, seen) != seen:
            raise NoRecords(f"CUPTI's records of {name} are not complete")
    return times


def quick_time(bench: Bench, function: Callable[[], Any], repeats: int = 15) -> float:
    """Return the median of a few calls between device events, in µs: what a search compares trials by."""
    empty = statistics.median(bench.empty_readings()[:5])
    queued = [bench.queue(function, _nothing) for _ in range(repeats)]
    bench.wait()
    return max(statistics.median(one.between_us for one in queued) - empty, judging.FINEST_CLOCK_US)


def _nothing() -> None:
    return None
