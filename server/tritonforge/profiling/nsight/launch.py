"""What a report says of one profiled launch, before it is brought to our names and lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ReportedInstruction:
    """One machine instruction with what was counted at it.

    `address` is relative to the kernel's first instruction. `file` and `line` are the innermost inlined frame.
    `executed` counts warps that executed it, `threads` their lanes that were not predicated off (None: not collected).
    `stalls` are all samples by reason, those of warps that issued too. Sectors and wavefronts as in `LineCounters`.
    """

    address: int
    sass: str
    file: str | None = None
    line: int | None = None
    executed: float = 0.0
    threads: float | None = None
    stalls: Mapping[str, int] = field(default_factory=dict)
    sectors: float = 0.0
    ideal_sectors: float = 0.0
    wavefronts: float = 0.0
    ideal_wavefronts: float = 0.0
    frames: tuple[tuple[str, int], ...] = ()
    """The whole chain of inlined frames, innermost first, where it is known."""


@dataclass(frozen=True)
class ReportedDevice:
    """The GPU of a launch by its own attributes; what the report does not say is None.

    Clocks are the highest in kHz, `bus_bits` the width of the memory bus, `l2_bytes` the size of the L2 cache.
    """

    name: str | None = None
    compute_capability: tuple[int, int] | None = None
    sms: int | None = None
    clock_khz: float | None = None
    memory_khz: float | None = None
    bus_bits: float | None = None
    l2_bytes: float | None = None

    @property
    def arch(self) -> str | None:
        """The architecture as compilers name it: `sm_90`."""
        return "sm_{}{}".format(*self.compute_capability) if self.compute_capability else None

    @property
    def dram_gbps(self) -> float | None:
        """Peak GB/s of memory: two transfers a clock over the whole bus (the formula of CUDA's deviceQuery sample)."""
        if not self.memory_khz or not self.bus_bits:
            return None
        return 2 * self.memory_khz * 1e3 * self.bus_bits / 8 / 1e9


@dataclass(frozen=True)
class ReportedLaunch:
    """One profiled launch of a report.

    `name` is the function's plain name, `symbol` as in the machine code. `metrics` are numbers by our names (see
    `metrics`), `ranges` the NVTX ranges that it ran in, outermost first.
    """

    name: str
    symbol: str = ""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    stall_ratios: Mapping[str, float] = field(default_factory=dict)
    """Average number of warps stalled for each reason per issued instruction: counted, not sampled."""
    device: ReportedDevice = ReportedDevice()
    instructions: tuple[ReportedInstruction, ...] = ()
    ranges: tuple[str, ...] = ()
