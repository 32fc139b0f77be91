"""`Compilation`: what the compiler made of a launch for an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tritonforge.domain.blocks import Atomic, Conversion, Dot, GlobalAccess, Loop, SharedAccess
from tritonforge.domain.semantics import Semantics


@dataclass(frozen=True)
class Resources:
    """Per-thread and per-program resources. Bytes, except `registers` (32-bit registers per thread).

    `spill_bytes` is the stack frame that spilled registers take per thread (0 when nothing spills); `shared_bytes` is
    static plus dynamic shared memory per program, and the two after it its parts. `accumulator_registers` are the part
    of `registers` that AMD's matrix cores accumulate in (AGPRs; 0 on NVIDIA), `scalar_registers` those of a whole wave
    or of NVIDIA's uniform datapath. None: the texts do not say.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    accumulator_registers: int | None = None
    scalar_registers: int | None = None


@dataclass(frozen=True)
class OccupancyStep:
    """What it takes to hold `programs_per_sm` programs at once, the next number up, with as many warps each as now.

    A program may then use at most `registers` per thread and `shared_bytes`; `exceeded` names those of which it uses
    more now: all of them must shrink. `fraction` is the occupancy then.
    """

    programs_per_sm: int
    fraction: float
    registers: int
    shared_bytes: int
    exceeded: tuple[Literal["registers", "shared-memory"], ...]


@dataclass(frozen=True)
class Occupancy:
    """Theoretical occupancy: resident warps over the most an SM can hold.

    `fraction` is 0–1; `limiter` names the resource that allows no further program on the SM. `next_step` is None when
    the SM can hold no further program of so many warps, whatever it uses.
    """

    fraction: float
    programs_per_sm: int
    warps_per_sm: int
    limiter: Literal["registers", "shared-memory", "warps", "programs"]
    next_step: OccupancyStep | None = None


@dataclass(frozen=True)
class Waves:
    """How the programs of a launch fill a GPU, were they all alike (see `compilation.waves`).

    `slots` is how many programs run at once; `waves` programs ÷ slots; `full` the whole waves; `tail_programs` how many
    programs the last, partial wave has (0: every wave is full). `busy_sms` is the share of SMs that get any program,
    `efficiency` the share of the slots of all waves, the last included, that programs fill (each 0–1).
    """

    slots: int
    waves: float
    full: int
    tail_programs: int
    busy_sms: float
    efficiency: float


@dataclass(frozen=True)
class Pace:
    """What a warp that has its SM to itself spends (see `compilation.stalls`).

    `cycles`: issuing, and waiting for results of nearby units. `matrix`: cycles of waiting for products of the matrix
    unit. `waits`: for global memory, in full latencies (0.5: other work hides half of one).
    """

    cycles: float = 0.0
    matrix: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True)
class LineInstructions:
    """Machine instructions of one source line, inlined library frames included, counted statically (not per run).

    `instructions` maps a class to how many there are: `fma`, `alu`, `int`, `special`, `mma`, `wgmma`, `load_global`,
    `store_global`, `load_shared`, `store_shared`, `load_local`, `store_local`, `async_copy`, `atomic`, `barrier`,
    `shuffle`, `convert`, `branch`, `other`. `access_bytes` lists the widths in bytes of its global accesses.
    `looped` counts those of `instructions` that a machine loop repeats (without the remainder loops of unrolling),
    `rare` those on slow paths of library functions that nearly no value takes.

    `functions` counts what the math units compute, by name, among `special` and elsewhere: `exp2`, `log2`, `rcp`,
    `rsqrt`, `sqrt`, `sin`, `cos`, `tanh` are single instructions; `div` counts IEEE divisions (a dozen instructions and
    a slow path), `int_div` divisions or remainders of integers by a value that is no constant (about twenty). Others
    under the mnemonic in lower case. `spill_stores` and `spill_loads` are how many of `store_local` and `load_local`
    move spilled registers. `executed` weights `instructions` with how often they run: instructions that the warps of
    one program issue, by class; None where trip counts or the work are not known. `pace` is what its instructions
    outside machine loops cost a lone warp, `looped_pace` those inside, each pass.
    """

    instructions: Mapping[str, int]
    access_bytes: tuple[int, ...] = ()
    looped: Mapping[str, int] = field(default_factory=dict)
    rare: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, int] = field(default_factory=dict)
    spill_stores: int = 0
    spill_loads: int = 0
    executed: Mapping[str, float] | None = None
    pace: Pace = Pace()
    looped_pace: Pace = Pace()

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
    many elements its atomics are spread over at most, 0 when unknown. `exact`: `executions` is known, not guessed.
    `trips` is how often the body of the loop that starts on this line runs each time that it is entered (the mean over
    the grid), None without one or when that is not known before it runs.
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
    exact: bool = True
    trips: float | None = None


@dataclass(frozen=True)
class Work:
    """What one program of the launch does, read from the compiler's first IR.

    `iterations` is the largest product of trip counts on one nest: the serial length of the program. `exact` is false
    when a trip count or a block size had to be guessed. `dot_tile` is (M, N, K) of the largest dot, or None;
    `dot_dtype` its operand type. `imbalance` is the serial length of the longest program that was looked at over the
    mean (1: all alike).
    """

    lines: Mapping[int, LineWork]
    iterations: float = 1.0
    exact: bool = True
    dot_tile: tuple[int, int, int] | None = None
    dot_dtype: str | None = None
    imbalance: float = 1.0

    def total(self, field_name: str) -> float:
        """Sum `field_name` of `LineWork` over all lines."""
        return sum(float(getattr(line, field_name)) for line in self.lines.values())


@dataclass(frozen=True)
class Compilation:
    """What the compiler made of one launch for one architecture.

    Keyed by code, specialisation, config, architecture and Triton version. `error` is set, and the facts are empty,
    when it does not compile. `tensor_path` is the instruction family that its dots use.

    The tuples from `accesses` to `loops` are in the order of the text and come from the compiler's last IR with layouts
    (`ttgir`). Each is None when that text is missing or cannot be read, which says nothing; empty means that there are
    none. Their `line`s are lines of the user's file.
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
    semantics: Semantics | None = None
    """How far accesses go and which formats it computes in; None without the compiler's first IR."""
    accesses: tuple[GlobalAccess, ...] | None = None
    shared_accesses: tuple[SharedAccess, ...] | None = None
    conversions: tuple[Conversion, ...] | None = None
    dots: tuple[Dot, ...] | None = None
    atomics: tuple[Atomic, ...] | None = None
    loops: tuple[Loop, ...] | None = None


@dataclass(frozen=True)
class Prediction:
    """A modelled time in µs with an interval, the parts it is made of, and the one that dominates.

    `parts` are µs by name: `launch`, `dram`, `l2`, `shared`, `tensor`, `alu`, `special`, `spill`, `atomic`, `latency`.
    Always `predicted`, never shown as measured.
    """

    time_us: float
    interval: tuple[float, float]
    parts: Mapping[str, float]
    dominant: str
    gpu: str
