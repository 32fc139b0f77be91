"""Inputs that every program reads more than once from memory."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import tensor_bytes, tensors, traffic
from tritonforge.domain.kernel import Access

_RATIO = 1.4
"""Moved over useful bytes from which re-reading decides the time of a memory-bound launch."""
_READ_AGAIN = 1.5


@dataclass(frozen=True)
class Redundancy:
    """`pointer` is read `times` over, at `accesses`; the launch moves `ratio` times the bytes it must."""

    pointer: str
    times: float
    ratio: float
    moved: float
    useful: float
    accesses: tuple[Access, ...]


def redundancy(case: Case) -> Redundancy | None:
    """Judge whether separate loads of one program walk the same input again (a second or third pass).

    Kernels with dots are left out: there each operand is shared between programs on purpose, and the tile is judged.
    """
    known = traffic(case)
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
        times = moved / sizes[pointer]
        if best is None or times > best.times:
            best = Redundancy(pointer, times, known.moved / known.useful, known.moved, known.useful, passes)
    return best


def _passes(case: Case, pointer: str) -> tuple[Access, ...]:
    """Loads of `pointer` in different loops, or at the same address: neighbours in one loop body hit the cache."""
    loads = [a for a in case.kernel.accesses if a.kind == "load" and a.pointer == pointer]
    seen: dict[tuple[int, ...], Access] = {}
    for access in loads:
        seen.setdefault(access.loops, access)
    return tuple(seen.values())
