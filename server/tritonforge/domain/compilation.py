"""`Compilation`: what the compiler made of a launch for an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Resources:
    """Per-thread and per-program resources. Bytes, except `registers` (32-bit registers per thread).

    `spill_bytes` is the stack frame that spilled registers take per thread (0 when nothing spills); `shared_bytes` is
    static plus dynamic shared memory per program.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Occupancy:
    """Theoretical occupancy: resident warps over the most an SM can hold.

    `fraction` is 0–1; `limiter` names the resource that allows no further program on the SM.
    """

    fraction: float
    programs_per_sm: int
    warps_per_sm: int
    limiter: Literal["registers", "shared-memory", "warps", "programs"]


@dataclass(frozen=True)
class LineInstructions:
    """Machine instructions of one source line, inlined library frames included, counted statically (not per run).

    `instructions` maps a class to how many there are: `fma`, `alu`, `int`, `special`, `mma`, `wgmma`, `load_global`,
    `store_global`, `load_shared`, `store_shared`, `load_local`, `store_local`, `async_copy`, `atomic`, `barrier`,
    `shuffle`, `convert`, `branch`, `other`. `access_bytes` lists the widths in bytes of its global accesses.
    `looped` counts those of `instructions` that a machine loop repeats (without the remainder loops of unrolling),
    `rare` those on slow paths of library functions that nearly no value takes.
    """

    instructions: Mapping[str, int]
    access_bytes: tuple[int, ...] = ()
    looped: Mapping[str, int] = field(default_factory=dict)
    rare: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All instructions of the line."""
        return sum(self.instructions.values())


@dataclass(frozen=True)
class LineWork:
    """What one program does on one source line, loop trip counts included.

    Bytes count every lane of a block, masked or not; `unmasked_fraction` (0–1) is the share of lanes that a mask known
    at launch leaves on, 1 when there is no mask or it is unknown. `dot_flops` counts a multiply-add as 2.
    `moved_bytes` are the bytes of all 32-byte sectors that its unmasked accesses touch: more than they use where
    addresses are strided or scattered. `pointers` names the arguments that they go through. `atomic_targets` is how
    many elements its atomics are spread over at most, 0 when unknown.
    """

    executions: float
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    dot_flops: float = 0.0
    alu_ops: float = 0.0
    special_ops: float = 0.0
    atomic_ops: float = 0.0
    unmasked_fraction: float = 1.0
    moved_bytes: float = 0.0
    pointers: tuple[str, ...] = ()
    atomic_targets: float = 0.0


@dataclass(frozen=True)
class Work:
    """What one program of the launch does, read from the compiler's first IR.

    `iterations` is the largest product of trip counts on one nest: the serial length of the program. `exact` is false
    when a trip count or a block size had to be guessed. `dot_tile` is (M, N, K) of the largest dot, or None;
    `dot_dtype` its operand type.
    """

    lines: Mapping[int, LineWork]
    iterations: float = 1.0
    exact: bool = True
    dot_tile: tuple[int, int, int] | None = None
    dot_dtype: str | None = None

    def total(self, field_name: str) -> float:
        """Sum `field_name` of `LineWork` over all lines."""
        return sum(float(getattr(line, field_name)) for line in self.lines.values())


@dataclass(frozen=True)
class Compilation:
    """What the compiler made of one launch for one architecture.

    Keyed by code, specialisation, config, architecture and Triton version. `error` is set, and the facts are empty,
    when it does not compile. `tensor_path` is the instruction family that its dots use.
    """

    launch: str
    kernel: str
    arch: str
    triton: str
    num_warps: int = 4
    num_stages: int = 3
    resources: Resources | None = None
    occupancy: Occupancy | None = None
    instructions: Mapping[int, LineInstructions] = field(default_factory=dict)
    work: Work | None = None
    tensor_path: Literal["none", "fma", "mma", "wgmma", "tcgen05", "mfma"] = "none"
    programs: int = 0
    compile_ms: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Prediction:
    """A modelled time in µs with an interval, the parts it is made of, and the one that dominates.

    `parts` are µs by name: `launch`, `dram`, `l2`, `tensor`, `alu`, `special`, `latency`, `spill`, `atomic`. Always
    `predicted`, never shown as measured.
    """

    time_us: float
    interval: tuple[float, float]
    parts: Mapping[str, float]
    dominant: str
    gpu: str
