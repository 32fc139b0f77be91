"""Inputs that every program reads more than once from memory."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, metric
from tritonforge.diagnosis.facts import tensor_bytes, tensors, traffic
from tritonforge.domain.counters import Counters
from tritonforge.domain.kernel import Access
from tritonforge.domain.provenance import Provenance

_RATIO = 1.4
"""Moved over useful bytes from which re-reading decides the time of a memory-bound launch."""
_READ_AGAIN = 1.5
_CACHED = 1.2


@dataclass(frozen=True)
class Redundancy:
    """`pointer` is read `times` over, at `accesses`; the launch moves `ratio` times the bytes it must."""

    pointer: str
    times: float
    ratio: float
    moved: float
    useful: float
    accesses: tuple[Access, ...]
    provenance: Provenance = "derived"


def redundancy(case: Case) -> Redundancy | None:
    """Judge whether separate loads of one program walk the same input again (a second or third pass).

    Kernels with dots are left out: there each operand is shared between programs on purpose, and the tile is judged.
    """
    known = traffic(case)
    if known is None and case.counters is not None and not case.kernel.dots:
        return _counted(case)
    if known is None or case.kernel.dots or known.useful <= 0 or known.moved < _RATIO * known.useful:
        return None
    sizes = {name: tensor_bytes(t) for name, t in tensors(case.launch).items()}
    best: Redundancy | None = None
    for pointer, moved in known.loads.items():
        if pointer is None or not sizes.get(pointer) or moved < _READ_AGAIN * sizes[pointer]:
            continue
        passes = _passes(case, pointer)
        if len(passes) < 2:
            continue
        if _stays_in_cache(case, known.useful):
            return None
        times = moved / sizes[pointer]
        if best is None or times > best.times:
            best = Redundancy(pointer, times, known.moved / known.useful, known.moved, known.useful, passes)
    return best


def _stays_in_cache(case: Case, useful: float) -> bool:
    """Whether memory was counted to move little more than it must: the caches serve the second pass."""
    moved = metric(case, "dram_bytes")
    return moved is not None and moved < _CACHED * useful


def _counted(case: Case) -> Redundancy | None:
    """The same from the sectors of each line: what a later pass over a pointer asks for was asked for before."""
    counters = case.counters
    if counters is None:
        return None
    everything = sum(line.sectors for line in counters.lines.values()) * SECTOR
    best: Redundancy | None = None
    for pointer in sorted({a.pointer for a in case.kernel.accesses if a.kind == "load" and a.pointer}):
        passes = [a for a in _passes(case, pointer) if a.block is not False]
        asked = [_sectors(counters, a) * SECTOR for a in passes]
        once, again = max(asked, default=0.0), sum(asked)
        if len(passes) < 2 or not once or again < _READ_AGAIN * once:
            continue
        useful = everything - again + once
        if everything < _RATIO * useful or _stays_in_cache(case, useful):
            continue
        if best is None or again / once > best.times:
            best = Redundancy(pointer, again / once, everything / useful, everything, useful, tuple(passes), "measured")
    return best


def _sectors(counters: Counters, access: Access) -> float:
    lines = range(access.range.start.line, access.range.end.line + 1)
    return sum(line.sectors for number, line in counters.lines.items() if number in lines)


def _passes(case: Case, pointer: str) -> tuple[Access, ...]:
    """Loads of `pointer` in different loops, or at the same address: neighbours in one loop body hit the cache."""
    loads = [a for a in case.kernel.accesses if a.kind == "load" and a.pointer == pointer]
    seen: dict[tuple[int, ...], Access] = {}
    for access in loads:
        seen.setdefault(access.loops, access)
    return tuple(seen.values())
