"""Rounds of samples: every launch once in random order, until there are enough that can be believed."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tritonforge.worker.timing.health import Health
from tritonforge.worker.timing.judging import is_settled
from tritonforge.worker.timing.queueing import Bench, Queued

LEAST_ROUNDS = 5
WARM_UP_S = 0.5
_SHORTEST_WARM_UP_S = 0.05
_TRIES_PER_ROUND = 4
_LOOK_EVERY = 8
_SWITCH_INTERVAL_S = 2e-5


class Repeatable(Protocol):
    """A launch that can be repeated: the kernel's name on the device, what launches it, what puts its inputs back."""

    @property
    def name(self) -> str:
        """The kernel's name in its binary."""

    @property
    def start(self) -> Callable[[], Any]:
        """What launches it."""

    def reset(self) -> None:
        """Put back what the launch changes."""


Row = list[list[tuple[int, Queued]]]
"""One round: for each launch its repetitions, as (place among all that were launched, events)."""


@dataclass
class Rounds:
    """Rounds that count, and what was seen on the way.

    `names`: kernels in the order of launching, those of rounds that do not count too. `late`: rounds in which the host
    was late at least once; `late_kept` of them count for want of others. `flush_us` and `clock_mhz` are one value for
    each launch, in time's order.
    """

    kept: list[Row] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    late: int = 0
    late_kept: int = 0
    out_of_time: bool = False
    flush_us: list[float] = field(default_factory=list)
    clock_mhz: list[float] = field(default_factory=list)

    def samples(self, read: Callable[[int, Queued], float]) -> tuple[tuple[float, ...], ...]:
        """Return the samples of each launch: the mean over its repetitions in each round."""
        count = len(self.kept[0]) if self.kept else 0
        return tuple(
            tuple(sum(read(place, queued) for place, queued in row[i]) / len(row[i]) for row in self.kept)
            for i in range(count)
        )


def take_rounds(
    bench: Bench,
    health: Health,
    launches: Sequence[Repeatable],
    batches: Sequence[int],
    *,
    wanted: int,
    until: float,
    strict: bool,
    around: Callable[[int], AbstractContextManager[Any]],
    on_round: Callable[[int], None],
) -> Rounds:
    """Take rounds until there are `wanted`, or it is past `until` (by `time.perf_counter`) and there are a few.

    Args:
        bench: what queues launches.
        health: looks after the GPU meanwhile.
        launches: one sample of each is taken in every round.
        batches: how many repetitions make a sample of each launch.
        wanted: how many rounds.
        until: when to be content with fewer.
        strict: whether rounds in which the host was late do not count, unless there are no others.
        around: entered round each launch, told its place in `names`.
        on_round: told how many rounds there are.
    """
    generator = random.Random(0)  # noqa: S311 - the order of launches is no secret
    taken = Rounds()
    spare: list[Row] = []
    tries = 0
    while len(taken.kept) < wanted and tries < _TRIES_PER_ROUND * wanted:
        enough = len(taken.kept) + len(spare) >= min(LEAST_ROUNDS, wanted)
        if enough and time.perf_counter() > until:
            taken.out_of_time = True
            break
        row: Row = [[] for _ in launches]
        order = [i for i, count in enumerate(batches) for _ in range(count)]
        generator.shuffle(order)
        for i in order:
            place = len(taken.names)
            row[i].append((place, bench.queue(launches[i].start, launches[i].reset, around(place))))
            taken.names.append(launches[i].name)
        if tries % _LOOK_EVERY == 0:
            health.look()
        bench.wait()
        tries += 1
        in_time = sorted((pair for one in row for pair in one), key=lambda pair: pair[0])
        taken.flush_us += [queued.flush_us for _, queued in in_time]
        taken.clock_mhz += [queued.clock_mhz for _, queued in in_time]
        was_late = any(queued.late for _, queued in in_time)
        if was_late:
            taken.late += 1
        if was_late and strict:
            bench.wait_longer()
            spare.append(row)
        else:
            taken.kept.append(row)
            on_round(len(taken.kept))
    missing = max(0, min(LEAST_ROUNDS, wanted) - len(taken.kept))
    taken.late_kept = len(spare[-missing:]) if missing else 0
    taken.kept += spare[-missing:] if missing else []
    return taken


def warm_up(bench: Bench, launches: Sequence[Repeatable]) -> tuple[bool, list[float]]:
    """Launch everything until flushes and clocks are steady: three times at least, for half a second at most.

    Returns:
        Whether they are steady, and what lay between the events of each launch the last time, in µs.
    """
    began = time.perf_counter()
    flushes: list[float] = []
    clocks: list[float] = []
    last: list[Queued] = []
    steady = False
    for i in range(1000):
        last = [bench.queue(launch.start, launch.reset) for launch in launches]
        bench.wait()
        flushes += [queued.flush_us for queued in last]
        clocks += [queued.clock_mhz for queued in last]
        spent = time.perf_counter() - began
        steady = is_settled(flushes) and is_settled(clocks) and spent > _SHORTEST_WARM_UP_S
        if i >= 2 and (steady or spent > WARM_UP_S):
            break
    return steady, [queued.between_us for queued in last]


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's own work from this thread as far as possible: no garbage collection, no long waits for the lock."""
    collecting, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.disable()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)  # a thread that computes gives the lock up 200 times as often
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if collecting:
            gc.enable()
