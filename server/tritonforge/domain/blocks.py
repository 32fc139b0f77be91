"""What the compiler decided about each block operation of a kernel: facts with a line, parts of a `Compilation`.

Everywhere None means "unknown": the text does not say, or the reader does not understand it. A guess is never kept.
`loop` is the line of the innermost loop around the operation, None outside loops. `executions` is how often one program
runs it, None when a trip count or a branch on the way to it is not known before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AccessKind = Literal["load", "store", "atomic", "async-copy", "bulk-load", "bulk-store", "bulk-reduce"]
SharedKind = Literal["load", "store", "async-copy"]
DotPath = Literal["fma", "mma", "wgmma", "tcgen05", "mfma", "wmma"]
Ordering = Literal["relaxed", "acquire", "release", "acq_rel"]
Scope = Literal["gpu", "cta", "sys"]
Way = Literal["registers", "shuffle", "shared"]


@dataclass(frozen=True)
class GlobalAccess:
    """One access of a block in global memory.

    `kind`: `load`, `store`, `atomic`, `async-copy` (global to shared memory, cp.async), `bulk-load`, `bulk-store` or
    `bulk-reduce` (tensor descriptors: TMA moves whole rows, and no lane has an address). `pointer` is the argument that
    the addresses go through. `dtype` is MLIR's element type (`f16`), `shape` the block's (empty: a scalar).

    `lane_bytes` is what one lane moves with one instruction, as the compiler chose; `widest_bytes` (at most 16) what it
    could move: as far as the addresses of this launch run on without a gap and are aligned, whatever the compiler knew
    of them; None for atomics. `masked`: there is a mask that is not always on (its own alignment narrows accesses too).

    `sectors` is how many 32-byte sectors one warp-wide instruction touches (mean over the block), `sectors_needed` how
    few would hold the same bytes: their ratio is 1 when coalesced. `overfetch` is the same ratio over all that a warp
    accesses of the block: 1 when its instructions together use every sector whole, so that a cache makes up for what
    each of them wastes. All None for bulk accesses, and where the addresses are data-dependent or the layout is not
    understood. They are counted from the lanes' addresses, with the program in the middle of the grid; lanes that a
    mask turns off count. `replicas` is how many lanes hold each element (1: none
    is idle or repeated). `data_dependent`: the addresses come out of memory (a gather or scatter).
    """

    line: int
    kind: AccessKind
    pointer: str | None
    dtype: str
    shape: tuple[int, ...]
    loop: int | None = None
    executions: float | None = None
    lane_bytes: int | None = None
    widest_bytes: int | None = None
    masked: bool | None = None
    sectors: float | None = None
    sectors_needed: float | None = None
    overfetch: float | None = None
    replicas: int | None = None
    data_dependent: bool | None = None

    @property
    def redundancy(self) -> float | None:
        """Sectors touched ÷ sectors needed, at least 1."""
        if self.sectors is None or not self.sectors_needed:
            return None
        return self.sectors / self.sectors_needed


@dataclass(frozen=True)
class SharedAccess:
    """One access of a block in shared memory that lanes make (not the matrix unit, not TMA).

    `kind`: `load`, `store`, or `async-copy` (the writing end of a cp.async). `ways` estimates bank conflicts from the
    layouts: wavefronts that one warp's access takes ÷ the fewest that could move its bytes, so 1 is free of conflicts.
    `layout` is how shared memory is laid out, as in `Conversion.source`.
    """

    line: int
    kind: SharedKind
    dtype: str
    shape: tuple[int, ...]
    layout: str
    loop: int | None = None
    executions: float | None = None
    ways: float | None = None


@dataclass(frozen=True)
class Conversion:
    """A block moved from one register layout to another.

    `source` and `target` name the kinds of layout: `blocked`, `linear`, `mma` (NVIDIA's, of any version), `mfma`,
    `wmma`, `dot-operand`, `slice of …`, else MLIR's own name. `through`: `registers` (each lane keeps its elements),
    `shuffle` (within warps) or `shared` (through shared memory, with barriers). `nbytes` is the size of the block.
    """

    line: int
    source: str
    target: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: float
    loop: int | None = None
    executions: float | None = None
    through: Way | None = None


@dataclass(frozen=True)
class Dot:
    """A matrix product. `tile` is (M, N, K) of the block; `a_dtype`, `b_dtype`, `accumulator` are MLIR's element types.

    `path` is the instruction family; `instruction` the (M, N) or (M, N, K) of one matrix instruction as far as the
    layout says. `a_shared`, `b_shared`: the operand is read from shared memory by the matrix unit itself.
    `asynchronous`: it is issued without waiting for the result (wgmma, tcgen05).
    """

    line: int
    path: DotPath | None
    tile: tuple[int, int, int]
    a_dtype: str
    b_dtype: str
    accumulator: str
    loop: int | None = None
    executions: float | None = None
    instruction: tuple[int, ...] = ()
    a_shared: bool | None = None
    b_shared: bool | None = None
    asynchronous: bool | None = None


@dataclass(frozen=True)
class Atomic:
    """An atomic operation of a block (`shape` empty: a scalar).

    `operation` is MLIR's: `fadd`, `add`, `max`, `umax`, `and`, `or`, `xor`, `exch`, `cas`, … `ordering` and `scope` are
    None where the text does not say. `result_used`: something reads what it returns, so that it cannot be a mere
    reduction. `distinct` is how many addresses the lanes of one execution touch.
    """

    line: int
    operation: str
    dtype: str
    shape: tuple[int, ...]
    ordering: Ordering | None
    scope: Scope | None
    pointer: str | None = None
    loop: int | None = None
    executions: float | None = None
    result_used: bool | None = None
    distinct: int | None = None


@dataclass(frozen=True)
class Loop:
    """A loop of the kernel that the compiler kept (unrolled ones are gone), in the order of the text.

    `line` is where its `for` or `while` stands, `outer` that of the loop around it, `innermost` whether none is inside.
    `trips` is how often its body runs each time that it is entered (at the middle of the grid), None when not known
    before it runs.

    Pipelining: `stages_asked` is what the loop (`tl.range(num_stages=…)`) or the launch asks for; `stages_used` how
    many iterations are really under way at once (1: a load is issued and waited for in the same iteration), from the
    loads that were moved in front of the loop; None when it loads no block. `buffers` is the depth of the deepest
    shared-memory buffer that it cycles through, 0 without one. Counted in the body, inner loops left out: `loads`
    (blocks loaded with the lane waiting), `scalar_loads` (single elements), `async_copies` (cp.async), `bulk_copies`
    (TMA), `dots`. `warp_specialized`: copies and computation are given to different warps.

    `instructions` is how many machine instructions one pass of the machine loop has, `chain` the longest chain of them
    where each needs the result of another, and `carried_chain` how much longer that chain gets with each further pass
    (the part of the chain that passes must wait for each other in). None where no machine loop is recognised.
    """

    line: int
    outer: int | None = None
    kind: Literal["for", "while"] = "for"
    innermost: bool = True
    trips: float | None = None
    stages_asked: int | None = None
    stages_used: int | None = None
    buffers: int | None = None
    loads: int = 0
    scalar_loads: int = 0
    async_copies: int = 0
    bulk_copies: int = 0
    dots: int = 0
    warp_specialized: bool = False
    instructions: int | None = None
    chain: int | None = None
    carried_chain: int | None = None

    @property
    def ilp(self) -> float | None:
        """Independent instructions in flight, estimated: instructions of a pass ÷ its longest dependence chain."""
        return self.instructions / self.chain if self.instructions and self.chain else None

    @property
    def waits_for_loads(self) -> bool | None:
        """Whether each iteration waits for its own loads; None when it loads no block or that is unknown."""
        return None if self.stages_used is None else self.stages_used <= 1 and not self.async_copies + self.bulk_copies
