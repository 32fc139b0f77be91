"""What the flow through a kernel's body collects, before it becomes the fields of `Kernel`."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class LoopFact:
    """One loop. `step`/`stop` are sizes (constexpr parameters) found in the step and behind a `cdiv` in the stop."""

    node: ast.For | ast.While
    kind: str
    depth: int
    variable: str | None = None
    start: str | None = None
    stop: str | None = None
    step: str | None = None
    step_sizes: tuple[str, ...] = ()
    scalar_access: bool = False
    block_work: bool = False


@dataclass(slots=True)
class AccessFact:
    """One load or store; merged when the flow meets it again.

    `varies` are the loops that change the address, the mask or a condition around it; `chosen_by` the loads, by the id
    of their node, whose values the address is computed from.
    """

    node: ast.Call
    kind: Literal["load", "store"]
    address: str
    mask: str | None
    other: str | None
    loops: tuple[int, ...]
    bases: tuple[str, ...] = ()
    rank: int | None = 0
    feeds: set[str] = field(default_factory=set)
    varies: set[int] = field(default_factory=set)
    chosen_by: set[int] = field(default_factory=set)
    hints: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class OperationFact:
    """A dot, reduction, scan, atomic or slow-math operation; `arguments` includes a method's receiver."""

    node: ast.expr | ast.AugAssign
    name: str
    arguments: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    loops: tuple[int, ...]


@dataclass(slots=True)
class Facts:
    """Everything the flow collects.

    `uses` names how each parameter is used where it stands alone: `multiply`, `add`, `compare`, `stride`, `test`,
    `argument`, `shape`, `step`, `other`. The sets hold constexpr parameters: `tile_uses` sized a block or stepped a
    loop, `size_uses` acted as a true size, `program_multiples` multiplied a program id, `stop_uses` bounded a loop.
    """

    loops: list[LoopFact] = field(default_factory=list)
    accesses: dict[int, AccessFact] = field(default_factory=dict)
    dots: dict[int, OperationFact] = field(default_factory=dict)
    reductions: dict[int, OperationFact] = field(default_factory=dict)
    scans: dict[int, OperationFact] = field(default_factory=dict)
    atomics: dict[int, OperationFact] = field(default_factory=dict)
    math: dict[int, OperationFact] = field(default_factory=dict)
    helpers: dict[str, ast.AST | None] = field(default_factory=dict)
    constants: dict[str, None] = field(default_factory=dict)
    uses: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    pointers: set[str] = field(default_factory=set)
    address_factors: set[str] = field(default_factory=set)
    tile_uses: set[str] = field(default_factory=set)
    size_uses: set[str] = field(default_factory=set)
    program_multiples: set[str] = field(default_factory=set)
    stop_uses: set[str] = field(default_factory=set)
    flag_uses: set[str] = field(default_factory=set)
    axes: dict[int, dict[str, None]] = field(default_factory=dict)
