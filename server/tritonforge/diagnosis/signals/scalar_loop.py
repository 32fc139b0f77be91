"""Loops that handle one element per iteration while a program has at least 32 lanes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import samples_on
from tritonforge.diagnosis.facts import program_lanes
from tritonforge.domain.kernel import Access, Kernel, Loop

_FEW = 16
"""Iterations up to which a scalar loop is not worth a block."""
_WORTH_A_BLOCK = 64
DECIDES = 0.5
"""Share of samples in a loop from which it decides the launch's time."""


@dataclass(frozen=True)
class ScalarLoop:
    """A loop over single elements: its loads, and how often one program goes round (None when unknown).

    `samples` is the share (0–1) of stall samples inside it, where there are any.
    """

    loop: Loop
    loads: tuple[Access, ...]
    iterations: float | None
    lanes: int
    samples: float | None = None

    @property
    def dominant(self) -> bool:
        """Whether it is known to go round often enough to decide the program's time."""
        return self.iterations is not None and self.iterations >= _WORTH_A_BLOCK


def scalar_loops(case: Case) -> tuple[ScalarLoop, ...]:
    """Return the loops that could be blocks, the longest first.

    Left out: `static_range` and short loops (unrolled), `while` (a pointer chase or a lock has no block form), and
    loops that also work on blocks or dots, where a scalar per iteration is a table look-up.
    """
    found = [s for i, loop in enumerate(case.kernel.loops) if (s := _judge(case, i, loop)) is not None]
    return tuple(sorted(found, key=lambda s: -(s.iterations or 0.0)))


def dominant_scalar_loop(case: Case) -> ScalarLoop | None:
    """Return the scalar loop that is the serial length of the program, if there is one."""
    sampled = _most_sampled(case)
    if sampled is not None:
        return sampled if (sampled.samples or 0.0) >= DECIDES else None
    compiled = case.compiled
    if compiled is None or compiled.work is None:
        return None
    longest = next(iter(scalar_loops(case)), None)
    if longest is None or not longest.dominant or longest.iterations is None:
        return None
    elsewhere = [
        work.executions
        for line, work in compiled.work.lines.items()
        if (work.dot_flops or work.load_bytes > work.executions * 16)
        and not longest.loop.range.start.line <= line <= longest.loop.range.end.line
    ]
    return longest if longest.iterations >= 2 * max(elsewhere, default=0.0) else None


def _most_sampled(case: Case) -> ScalarLoop | None:
    """The scalar loop in which warps were seen most often, with that share; None without samples."""
    found = [
        replace(loop, samples=share)
        for loop in scalar_loops(case)
        if (share := samples_on(case, [loop.loop.range])) is not None
    ]
    return max(found, key=lambda loop: loop.samples or 0.0, default=None)


def _judge(case: Case, index: int, loop: Loop) -> ScalarLoop | None:
    kernel = case.kernel
    if not loop.scalar or loop.kind in {"while", "static_range"} or _works_on_blocks(kernel, index):
        return None
    loads = tuple(a for a in kernel.accesses if a.kind == "load" and index in a.loops and a.block is False)
    iterations = _iterations(case, loop, loads)
    if not loads or (iterations is not None and iterations < _FEW):
        return None
    return ScalarLoop(loop, loads, iterations, program_lanes(case))


def _works_on_blocks(kernel: Kernel, index: int) -> bool:
    operations = (*kernel.dots, *kernel.reductions, *kernel.scans, *kernel.atomics)
    return any(index in a.loops and a.block is not False for a in kernel.accesses) or any(
        index in o.loops for o in operations
    )


def _iterations(case: Case, loop: Loop, loads: tuple[Access, ...]) -> float | None:
    work = case.compiled.work if case.compiled is not None else None
    if work is not None:
        inside = range(loop.range.start.line, loop.range.end.line + 1)
        counts = [
            line_work.executions
            for line, line_work in work.lines.items()
            if line in inside and any(a.range.start.line <= line <= a.range.end.line for a in loads)
        ]
        if counts:
            return max(counts)
    if loop.start is not None and loop.stop is not None:
        bounds = [text.strip() for text in (loop.start, loop.stop)]
        if all(re.fullmatch(r"\d+", b) for b in bounds):
            return float(int(bounds[1]) - int(bounds[0]))
    return None
