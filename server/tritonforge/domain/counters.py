"""`Counters`: what the hardware counted while it ran one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NOT_STALLED = "selected"
"""The one reason among `stalls` that is none: the sampled warp issued its instruction."""


@dataclass(frozen=True)
class LineCounters:
    """What was counted on one source line of the user's, inlined library frames included.

    `samples` are program-counter samples that found a warp here, `stalls` the same by reason, those of warps that did
    issue (`NOT_STALLED`) included. `executed` counts warp instructions. `sectors` are 32-byte sectors that the line's
    global accesses moved between L1 and L2, `ideal_sectors` the least that their bytes need; `wavefronts` and
    `ideal_wavefronts` the same for passes through shared memory.
    """

    samples: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)
    executed: float = 0.0
    sectors: float = 0.0
    ideal_sectors: float = 0.0
    wavefronts: float = 0.0
    ideal_wavefronts: float = 0.0


@dataclass(frozen=True)
class Counters:
    """What the hardware counted during one launch.

    `source`: `ncu` (hardware counters) or `pcsampling` (stall samples alone). `kernel` is the function as the driver
    knows it, `time_us` its time while it was profiled (caches cold, clocks as the profiler left them: never to be
    mixed with `Profile.time_us`). `metrics` maps the names of `profiling/nsight/metrics.py` to numbers, units there;
    what was not collected is absent. `stalls` are shares (0–1) of all samples by reason, largest first, `NOT_STALLED`
    included. `lines` is keyed by the line of the user's file. `missing` says, a sentence each, what this source could
    not give.
    """

    source: Literal["ncu", "pcsampling"]
    kernel: str
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    time_us: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[int, LineCounters] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


CounterLevel = Literal["ncu", "pcsampling", "none"]
"""Where counters come from, best first."""
CounterChoice = Literal["auto", "ncu", "pcsampling", "none"]
"""What a person asks for: `auto` is the best that works."""


@dataclass(frozen=True)
class CounterAccess:
    """What was found out about counters on a target: the best level that works, and why each better one does not.

    `refusals` maps a level to a sentence with its mend. `seen_at` in seconds since 1970.
    """

    level: CounterLevel
    refusals: Mapping[str, str] = field(default_factory=dict)
    seen_at: float = 0.0
