"""Putting a launch on the stream so that no work of the host can fall between its two events."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20
_FIRST_PAUSE_CYCLES = 200_000
_LONGEST_PAUSE_CYCLES = 100_000_000
_READINGS = 30
_NOTHING: AbstractContextManager[Any] = nullcontext()


@dataclass(frozen=True)
class Queued:
    """Events of one launch: a pause of so many clock `cycles` begins, the flush begins, the launch starts, it ends.

    `late`: the GPU had reached the launch before the host had finished queueing it, so that what the host did in
    between may be in the time.
    """

    pause: Any
    begin: Any
    start: Any
    end: Any
    cycles: int
    late: bool

    @property
    def clock_mhz(self) -> float:
        """The clock of the SMs right before the launch, by how long the pause took."""
        return self.cycles / max(1e-3, float(self.pause.elapsed_time(self.begin)) * 1e3)

    @property
    def flush_us(self) -> float:
        """How long the flush took."""
        return float(self.begin.elapsed_time(self.start)) * 1e3

    @property
    def between_us(self) -> float:
        """What lies between the events around the launch."""
        return float(self.start.elapsed_time(self.end)) * 1e3


class Bench:
    """A stream with a cold L2: 256 MB, or twice the L2, are read before every launch.

    Reading leaves clean lines behind; writing would have the launch pay for their way to memory. Before that the GPU
    is kept waiting by a spinning kernel while the host queues everything, longer when the host was late.
    """

    def __init__(self) -> None:
        l2 = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 0)
        self.flush_bytes = max(_FLUSH_BYTES, 2 * l2)
        self._data = torch.rand(self.flush_bytes // 4, device="cuda")
        self._sink = torch.empty((), device="cuda")
        self._pause = _FIRST_PAUSE_CYCLES

    def queue(
        self, launch: Callable[[], Any], before: Callable[[], Any], around: AbstractContextManager[Any] = _NOTHING
    ) -> Queued:
        """Queue `before`, a flush and, inside `around`, the launch; returns at once."""
        pause, begin, start, end = (torch.cuda.Event(enable_timing=True) for _ in range(4))
        before()
        pause.record()
        torch.cuda._sleep(self._pause)
        begin.record()
        torch.sum(self._data, 0, out=self._sink)
        start.record()
        with around:
            launch()
        end.record()
        return Queued(pause, begin, start, end, self._pause, bool(start.query()))

    def wait(self) -> None:
        """Wait until everything that was queued is done."""
        torch.cuda.synchronize()

    def wait_longer(self) -> None:
        """Keep the GPU waiting twice as long from now on."""
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_CYCLES)

    def empty_readings(self) -> list[float]:
        """Return what events with nothing between them read, in µs."""
        found = [self.queue(_nothing, _nothing) for _ in range(_READINGS)]
        torch.cuda.synchronize()
        return [one.between_us for one in found if not one.late] or [statistics.median(q.between_us for q in found)]


def _nothing() -> None:
    return None
