"""Loads inside a loop that load the same in every iteration.

Arithmetic that does not depend on a loop is moved out by the compiler; so are loads, by Triton's own pass, but only out
of loops that write nothing. What it left inside shows in how often the line runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.domain.compilation import Work
from tritonforge.domain.kernel import Access, Kernel, Loop
from tritonforge.domain.source import Range

_ROUNDS = 4
"""Iterations below which repeating a load is not worth a word."""


@dataclass(frozen=True)
class RepeatedLoad:
    """`access` is the same in each of `rounds` iterations of `loop` (None: unknown).

    `share` (0–1) of the bytes that a program asks for are such repetitions, None without a compilation.
    """

    access: Access
    loop: Loop
    rounds: float | None
    share: float | None


def repeated_loads(case: Case) -> tuple[RepeatedLoad, ...]:
    """Return the loads of blocks that could stand in front of their loop.

    From source alone only where the loop also writes: out of others the compiler moves the load. Left out: scalars
    (one request, from L1), unrolled loops (the compiler sees that the loads are the same), pointers that the kernel
    also writes through, and loads that the compiler did move.
    """
    kernel = case.kernel
    if any(access.pointer is None for access in kernel.accesses if access.kind == "store"):
        return ()
    found = []
    for access in kernel.accesses:
        if access.kind != "load" or access.block is not True or not access.loops or access.pointer is None:
            continue
        index = access.loops[-1]
        loop = kernel.loops[index]
        if index in access.varies or loop.kind == "static_range" or _is_written(kernel, access.pointer):
            continue
        if access.indirect in {"rows", "elements"} or dict(access.hints).get("volatile") == "True":
            continue
        if case.compilation is None and not _writes(kernel, index):
            continue
        seen = _judge(case, access, loop)
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _is_written(kernel: Kernel, pointer: str) -> bool:
    stored = any(a.kind == "store" and a.pointer == pointer for a in kernel.accesses)
    return stored or any(pointer in argument for atomic in kernel.atomics for argument in atomic.arguments[:1])


def _writes(kernel: Kernel, index: int) -> bool:
    stores = any(access.kind == "store" and index in access.loops for access in kernel.accesses)
    return stores or any(index in atomic.loops for atomic in kernel.atomics)


def _judge(case: Case, access: Access, loop: Loop) -> RepeatedLoad | None:
    if case.compilation is None:
        return RepeatedLoad(access, loop, None, None) if not _is_short(loop) else None
    work = case.compiled.work if case.compiled is not None else None
    if work is None or not work.exact:
        return None
    once = _entered(case.kernel, work, access)
    times = _executions(work, access.range)
    if once is None or not times or times < _ROUNDS * once:
        return None
    asked = sum(line.load_bytes + line.store_bytes for line in work.lines.values())
    lines = range(access.range.start.line, access.range.end.line + 1)
    here = sum(work.lines[n].load_bytes for n in lines if n in work.lines)
    share = here * (1 - once / times) / asked if asked else 0.0
    return RepeatedLoad(access, loop, times / once, share) if share else None


def _executions(work: Work, place: Range) -> float:
    lines = range(place.start.line, place.end.line + 1)
    return max((work.lines[n].executions for n in lines if n in work.lines and work.lines[n].load_bytes), default=0.0)


def _entered(kernel: Kernel, work: Work, access: Access) -> float | None:
    """How often the innermost loop is entered: as often as the body of the loop around it runs."""
    if len(access.loops) < 2:
        return 1.0
    header = kernel.loops[access.loops[-2]].range.start.line
    return work.lines[header].executions if header in work.lines else None


def _is_short(loop: Loop) -> bool:
    """Whether the text shows that the loop has few iterations."""
    bounds = [text.strip() for text in (loop.start or "", loop.stop or "", loop.step or "1")]
    if not all(bound.isdigit() for bound in bounds) or not int(bounds[2]):
        return False
    return (int(bounds[1]) - int(bounds[0])) / int(bounds[2]) < _ROUNDS
