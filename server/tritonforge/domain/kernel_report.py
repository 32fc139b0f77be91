"""`KernelReport`: all that is known of one kernel, put together for a person who wants to see it on one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.compilation import Occupancy, Resources
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.profile import LineHeat, Roofline
from tritonforge.domain.provenance import Provenance
from tritonforge.domain.results import OptimizeResult

ListingKind = Literal["ttir", "ttgir", "ptx", "sass", "amdgcn"]


@dataclass(frozen=True)
class Listing:
    """One of the compiler's texts, with the user's lines that each of its rows comes from.

    `lines` has for each of `rows` the 1-based lines of the user's file, the one that it is charged to first, then those
    that inlined it; empty for what the compiler says of no line. `shares` are shares (0–1) of all stall samples by
    0-based row, for rows of which samples are known.
    """

    kind: ListingKind
    rows: tuple[str, ...]
    lines: tuple[tuple[int, ...], ...]
    shares: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchReport:
    """One launch of the kernel, before and, where a better version was found, after.

    `time_us` and `interval` in µs are `measured` or `predicted`, as `provenance` says; a measured interval is the 95 %
    one of the median, a predicted one the model's. `samples` is 0 for a predicted time. `parts` are µs of the predicted
    time by what causes them, as in `Prediction`. `after_us` and `after` are the
    best verified version's, of the provenance of the search. `listings_note` says why there are none.
    """

    launch: Launch
    time_us: float | None
    provenance: Literal["measured", "predicted"]
    interval: tuple[float, float] | None = None
    samples: int = 0
    roofline: Roofline | None = None
    bottleneck: Bottleneck | None = None
    resources: Resources | None = None
    occupancy: Occupancy | None = None
    stalls: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[int, LineHeat] = field(default_factory=dict)
    lines_provenance: Provenance = "measured"
    counters_source: str = "none"
    parts: Mapping[str, float] = field(default_factory=dict)
    after_us: float | None = None
    after: Roofline | None = None
    listings: tuple[Listing, ...] = ()
    listings_note: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelReport:
    """What is known of a kernel as it stands in `text`, the text of its whole file.

    `target` says in words on what it was found out, `next_step` what to do next. `launches` are ordered by rank.
    `stale`: the code has changed since.
    """

    kernel: Kernel
    text: str
    target: str
    launches: tuple[LaunchReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    search: OptimizeResult | None = None
    next_step: str = ""
    stale: bool = False
