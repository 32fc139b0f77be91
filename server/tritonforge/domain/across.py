"""What several targets make of the versions of one kernel, and the one source that is kept for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tritonforge.domain.candidate import Suggestion
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.profile import TargetInfo

VersionKind = Literal["original", "one-version", "autotune-list", "architecture-table"]
"""`one-version`: the same code and values for all. `autotune-list`: every target's values in `@triton.autotune`.
`architecture-table`: the values are looked up by the GPU's compute capability."""


@dataclass(frozen=True)
class Cell:
    """One version on one target: its launches' time together in µs, and how much faster than the original it is.

    `reason` says why it is not to be used there; times are None where it was not run.
    """

    accepted: bool
    reason: str = ""
    time_us: float | None = None
    speedup: float | None = None
    speedup_ci95: tuple[float, float] | None = None


@dataclass(frozen=True)
class AcrossVersion:
    """One version of the source: `found_on` names the targets that it was the best of; `cells` are by target name."""

    title: str
    kind: VersionKind
    cells: Mapping[str, Cell]
    found_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class AcrossResult:
    """The matrix of versions and targets of one kernel. `chosen` is a place in `versions`, 0 being the original.

    `best`: the chosen version as a suggestion, with its least speedup; None where it is the original. `worst_loss`: how
    much slower than that target's own best it is where that is most (0–1). `why` is one sentence.
    """

    kernel: Kernel
    targets: tuple[TargetInfo, ...]
    versions: tuple[AcrossVersion, ...]
    chosen: int
    best: Suggestion | None
    provenance: Mapping[str, Literal["measured", "predicted"]]
    worst_loss: float
    why: str
