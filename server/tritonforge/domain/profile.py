"""`Profile`: what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch
from tritonforge.domain.provenance import Provenance


@dataclass(frozen=True)
class TimeDistribution:
    """Times of one launch in µs: median, bootstrap 95 % interval of the median, and how many samples there were.

    `outliers` of the samples lie far above the others; the median does not care, but a reader may.
    """

    median: float
    ci95: tuple[float, float]
    samples: int
    outliers: int = 0


@dataclass(frozen=True)
class Ceilings:
    """The fastest a GPU was seen, or is said, to go.

    GB/s are 1e9 bytes/s (reads plus writes): `copy_gbps` of device memory half read and half written, `read_gbps` read
    only, `l2_gbps` read from L2. `tflops` maps an operand type (`fp32`, `tf32`, `fp16`, `bf16`, `fp8`, `int8`) to
    TFLOP/s (TOP/s); a type that the GPU or its torch lacks is not in it. `launch_us` is what a launch takes of the
    device at least: the interval at which queued empty kernels follow each other. `provenance` is `measured` on this
    GPU or `public` (data-sheet figures).
    """

    gpu: str
    copy_gbps: float
    tflops: Mapping[str, float]
    launch_us: float
    l2_gbps: float | None = None
    provenance: Literal["measured", "public"] = "measured"
    read_gbps: float | None = None


@dataclass(frozen=True)
class Roofline:
    """Where a launch stands under its ceilings. Bytes and FLOPs are of one launch; `fraction` 0–1 of the bound."""

    bytes: float
    flops: float
    achieved_gbps: float | None
    achieved_tflops: float | None
    ceiling_gbps: float
    ceiling_tflops: float
    fraction: float | None
    bound: Literal["memory", "compute"]


@dataclass(frozen=True)
class LineHeat:
    """Share (0–1) of stall samples on a line and, of those, each reason's share; of predicted time without samples."""

    share: float
    stalls: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetInfo:
    """On what something was measured or predicted."""

    name: str
    kind: str
    gpu: str | None
    driver: str | None
    torch: str | None
    triton: str | None


@dataclass(frozen=True)
class Profile:
    """What is known about the time of one launch. `time_us` is None on a target that cannot measure."""

    kernel: Kernel
    target: TargetInfo
    launch: Launch
    time_us: TimeDistribution | None
    roofline: Roofline | None
    bottleneck: Bottleneck
    findings: tuple[Finding, ...] = ()
    stalls: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[int, LineHeat] = field(default_factory=dict)
    counters_source: str = "none"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """How it was measured, and what disturbed it."""
    lines_provenance: Provenance = "measured"
    """Of `lines`: `measured` (stall samples) or `predicted` (the time model's parts, spread over the lines)."""
