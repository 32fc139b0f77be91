"""`Finding` and the bottleneck classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.provenance import Evidence, Provenance
from tritonforge.domain.source import Range

Severity = Literal["error", "warning", "information", "hint"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
"""From the gravest to the lightest."""

BottleneckClass = Literal[
    "dram-bandwidth",
    "l2-bandwidth",
    "shared-memory",
    "tensor-core",
    "fp32-compute",
    "special-function",
    "latency",
    "uncoalesced-access",
    "redundant-traffic",
    "register-spill",
    "low-occupancy",
    "grid-too-small",
    "block-too-small",
    "tile-too-small",
    "scalar-loop",
    "no-tensor-core",
    "atomic-contention",
    "load-imbalance",
    "launch-bound",
    "at-roofline",
    "unknown",
]


@dataclass(frozen=True)
class Bottleneck:
    """The primary bottleneck of a launch: `confidence` 0–1, `reason` one sentence with the numbers behind it."""

    kind: BottleneckClass
    confidence: float
    provenance: Provenance
    reason: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Finding:
    """One thing to know about a kernel.

    `code` and `name` are stable (`TF203`, `tile-too-small`); `message` is one sentence; `estimated_gain` a speedup
    (before/after) or None; `launch` the id of the launch it was seen on, None when it follows from the source alone.
    """

    code: str
    name: str
    severity: Severity
    file: str
    range: Range
    message: str
    provenance: Provenance
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    estimated_gain: float | None = None
    launch: str | None = None

    @property
    def url(self) -> str:
        """The page that explains this rule, relative to the documentation's root."""
        return f"docs/rules/{self.code}.md"
