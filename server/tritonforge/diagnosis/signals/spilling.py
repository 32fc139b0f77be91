"""Registers that did not fit and went to local memory."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import program_lanes

_REGISTER_BYTES = 4
_REDUCTION_FRAME = 64
"""Bytes of stack that the argument reduction of `sin`, `cos` and `tan` takes for its table: an array, not a spill."""
_FEW_BYTES = 16
_MANY_BYTES = 64
_TRIGONOMETRY = frozenset({"sin", "cos", "tan", "sincos", "sinf", "cosf", "tanf"})


@dataclass(frozen=True)
class Spill:
    """Local memory of one program.

    `bytes_per_thread` of stack; `lines` that load or store it with how many instructions, the worst first;
    `program_bytes` moved by all threads of a program, loop trip counts included (None when unknown).
    """

    bytes_per_thread: int
    registers: int
    lines: tuple[tuple[int, int], ...]
    program_bytes: float | None
    global_bytes: float | None

    @property
    def share(self) -> float | None:
        """Local bytes over global bytes of a program, or None when either is unknown."""
        if self.program_bytes is None or not self.global_bytes:
            return None
        return self.program_bytes / self.global_bytes

    @property
    def heavy(self) -> bool:
        """Whether the traffic is large enough to be a bottleneck, not a handful of values parked outside a loop."""
        if self.bytes_per_thread < _MANY_BYTES:
            return False
        return self.share is None or self.share >= 0.25


def spill(case: Case) -> Spill | None:
    """Judge whether registers spill; the small stack arrays of trigonometric library code do not count."""
    compiled = case.compiled
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


def _is_argument_reduction(case: Case, size: int, lines: frozenset[int]) -> bool:
    trigonometric = {
        line
        for operation in case.kernel.math
        if operation.name in _TRIGONOMETRY
        for line in range(operation.range.start.line, operation.range.end.line + 1)
    }
    return size <= _REDUCTION_FRAME and bool(trigonometric) and lines <= trigonometric
