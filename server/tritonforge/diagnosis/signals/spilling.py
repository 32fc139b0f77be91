"""Registers that did not fit and went to local memory."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, metric
from tritonforge.diagnosis.facts import program_lanes
from tritonforge.domain.provenance import Provenance

_REGISTER_BYTES = 4
_REDUCTION_FRAME = 64
"""Bytes of stack that the argument reduction of `sin`, `cos` and `tan` takes for its table: an array, not a spill."""
_FEW_BYTES = 16
_RIVALS = 0.25
"""Local over global traffic from which spilling holds a launch back."""
_TRACE = 0.01
_MANY_BYTES = 64
_TRIGONOMETRY = frozenset({"sin", "cos", "tan", "sincos", "sinf", "cosf", "tanf"})


@dataclass(frozen=True)
class Spill:
    """Local memory of one program.

    `bytes_per_thread` of stack (None when only the traffic was counted); `lines` that load or store it with how many
    instructions, the worst first; `program_bytes` and `global_bytes` are moved by all threads of a program, loop trip
    counts included, or, where they were counted (`measured`), by the whole launch; None when unknown.
    """

    bytes_per_thread: int | None
    registers: int | None
    lines: tuple[tuple[int, int], ...]
    program_bytes: float | None
    global_bytes: float | None
    provenance: Provenance = "compiled"

    @property
    def share(self) -> float | None:
        """Local bytes over global bytes of a program, or None when either is unknown."""
        if self.program_bytes is None or not self.global_bytes:
            return None
        return self.program_bytes / self.global_bytes

    @property
    def heavy(self) -> bool:
        """Whether the traffic is large enough to be a bottleneck, not a handful of values parked outside a loop."""
        if self.provenance == "measured":
            return self.share is not None and self.share >= _RIVALS
        if self.bytes_per_thread is None or self.bytes_per_thread < _MANY_BYTES:
            return False
        return self.share is None or self.share >= _RIVALS


def spill(case: Case) -> Spill | None:
    """Judge whether registers spill; the small stack arrays of trigonometric library code do not count."""
    compiled = case.compiled
    if metric(case, "local_sectors") is not None and metric(case, "global_sectors"):
        return _counted(case)
    if compiled is None or compiled.resources is None or compiled.resources.spill_bytes < _FEW_BYTES:
        return None
    local = {
        line: count
        for line, mix in compiled.instructions.items()
        if (count := mix.instructions.get("load_local", 0) + mix.instructions.get("store_local", 0))
    }
    if _is_argument_reduction(case, compiled.resources.spill_bytes, frozenset(local)):
        return None
    work = compiled.work.lines if compiled.work is not None else {}
    weighted = {line: count * (work[line].executions if line in work else 1.0) for line, count in local.items()}
    total = sum(weighted.values()) * _REGISTER_BYTES * program_lanes(case)
    moved = sum(w.load_bytes + w.store_bytes for w in work.values())
    return Spill(
        bytes_per_thread=compiled.resources.spill_bytes,
        registers=compiled.resources.registers,
        lines=tuple((line, local[line]) for line in sorted(weighted, key=lambda n: (-weighted[n], n))),
        program_bytes=total if local and work else None,
        global_bytes=moved or None,
    )


def _counted(case: Case) -> Spill | None:
    """What local memory really moved: a frame that is never touched, or only on a rare path, is no spill."""
    compiled = case.compiled
    local, everything = metric(case, "local_sectors") or 0.0, metric(case, "global_sectors") or 0.0
    if local < _TRACE * everything:
        return None
    resources = compiled.resources if compiled is not None else None
    registers = resources.registers if resources is not None else metric(case, "registers")
    return Spill(
        bytes_per_thread=resources.spill_bytes if resources is not None else None,
        registers=int(registers) if registers is not None else None,
        lines=_local_lines(case),
        program_bytes=local * SECTOR,
        global_bytes=everything * SECTOR,
        provenance="measured",
    )


def _local_lines(case: Case) -> tuple[tuple[int, int], ...]:
    """Lines with local instructions, the costliest first: trip counts included."""
    instructions = case.compiled.instructions if case.compiled is not None else {}
    work = case.compiled.work.lines if case.compiled is not None and case.compiled.work is not None else {}
    local = {
        line: mix.instructions.get("load_local", 0) + mix.instructions.get("store_local", 0)
        for line, mix in instructions.items()
    }
    cost = {n: count * (work[n].executions if n in work else 1.0) for n, count in local.items() if count}
    return tuple((n, local[n]) for n in sorted(cost, key=lambda n: (-cost[n], n)))


def _is_argument_reduction(case: Case, size: int, lines: frozenset[int]) -> bool:
    trigonometric = {
        line
        for operation in case.kernel.math
        if operation.name in _TRIGONOMETRY
        for line in range(operation.range.start.line, operation.range.end.line + 1)
    }
    return size <= _REDUCTION_FRAME and bool(trigonometric) and lines <= trigonometric
