"""A whole program's GPU time by kernel: what its processes counted, and the ranking that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Launch

GpuTimeState = Literal["running", "complete", "partial", "refused"]


@dataclass(frozen=True)
class GpuTimeNote:
    """What became of counting device times in one process; `…_ns` are CLOCK_MONOTONIC.

    `running`: begun and never ended, so the process was killed. `complete`: from the start of CUDA to the end.
    `partial`: it had to make way before the end. `refused`: it could not begin, or could not write. `reason` is one
    clause for the last two.
    """

    pid: int
    state: GpuTimeState
    reason: str = ""
    began_ns: int = 0
    ended_ns: int = 0
    gpus: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return asdict(self)


@dataclass(frozen=True)
class KernelTime:
    """All runs of the kernels of one name, as the driver knows it: how many, and their device time together in µs."""

    name: str
    count: int
    time_us: float


@dataclass(frozen=True)
class GpuTimes:
    """What all processes of a program counted. `kernels` by name; `whole` when no process that used a GPU is missing.

    `reasons`: one clause for each way in which it is not the whole. `processes` used a GPU.
    """

    kernels: Mapping[str, KernelTime] = field(default_factory=dict)
    whole: bool = True
    reasons: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    processes: int = 0

    @property
    def total_us(self) -> float:
        """Device time of all kernels together."""
        return sum(one.time_us for one in self.kernels.values())


ProgramClock = Literal["cupti", "sampled", "predicted"]
"""`cupti`: every kernel's own device time. `sampled`: mean of sampled launches × how often the kernel was launched, of
Triton's kernels alone. `predicted`: the time model × how often, where nothing ran on a GPU."""


@dataclass(frozen=True)
class RankedKernel:
    """One Triton kernel of a program. Times are of all its runs together, in µs; `share` (0–1) is of the ranked time.

    `kernel` is None when its source was not found; `place` says where it comes from then. `launches` are what was
    recorded of it, in order of first sight, `count` is how often it ran. `headroom` is time / floor, the floor being
    what its roofline allows; None with a reason in `headroom_note`. `program_gain` is the speedup of the ranked time if
    this kernel reached its floor.
    """

    name: str
    share: float
    time_us: float
    count: int
    kernel: Kernel | None = None
    place: str = ""
    launches: tuple[Launch, ...] = ()
    bottleneck: Bottleneck | None = None
    headroom: float | None = None
    headroom_note: str = ""
    program_gain: float | None = None
    in_workspace: bool = False


@dataclass(frozen=True)
class OtherKernel:
    """A kernel that is not Triton's: `name` as the driver knows it, shortened for people."""

    name: str
    share: float
    time_us: float
    count: int


@dataclass(frozen=True)
class ProgramResult:
    """A program's Triton kernels by share of GPU time, the largest first.

    `gpu` is what it ran on, None when it ran on none; `predicted_for` the GPU whose figures times were predicted with.
    `triton_share` and `other_share` are None when only Triton's kernels could be timed. `missing` are sentences about
    what is not known and why.
    """

    command: tuple[str, ...]
    exit_code: int
    wall_s: float
    clock: ProgramClock
    gpu: str | None = None
    gpu_time_us: float = 0.0
    triton_share: float | None = None
    other_share: float | None = None
    kernels: tuple[RankedKernel, ...] = ()
    other: tuple[OtherKernel, ...] = ()
    missing: tuple[str, ...] = ()
    processes: int = 0
    predicted_for: str | None = None
