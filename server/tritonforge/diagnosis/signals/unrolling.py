"""Loops unrolled so far that compiling them is slow and their code does not fit the instruction cache."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.facts import integers
from tritonforge.diagnosis.sizes import integer, tile_sizes
from tritonforge.domain.kernel import Kernel, Loop

_LONG = 64
"""Copies of a body, written out in the source, that are worth a hint."""
_MUCH = 8_000
"""Machine instructions of a kernel from which it is large: 128 kB of code, what an SM's instruction cache holds (Jia et
al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018)."""
_MOSTLY = 0.5
INSTRUCTION_BYTES = 16
"""Of one machine instruction (NVIDIA, since Volta)."""


@dataclass(frozen=True)
class Unrolled:
    """`loop` and the unrolled loops inside it make `copies` of their bodies.

    `instructions` of the kernel of which `share` (0–1) stand in the loop; both None without a compilation.
    """

    loop: Loop
    copies: int | None
    instructions: int | None
    share: float | None


def unrolled(case: Case) -> Unrolled | None:
    """Return the unrolled loop that makes a kernel large, if one does."""
    found = [(index, loop) for index, loop in enumerate(case.kernel.loops) if loop.kind == "static_range"]
    if not found:
        return None
    if case.compiled is not None and case.compiled.instructions:
        return _from_code(case, [loop for _, loop in found])
    if case.compilation is not None:
        return None
    copies = {index: _copies(case, case.kernel, loop) for index, loop in found}
    known = [(count, index) for index, count in copies.items() if count is not None and count >= _LONG]
    if not known:
        return None
    count, index = max(known)
    return Unrolled(case.kernel.loops[index], count, None, None)


def _from_code(case: Case, loops: list[Loop]) -> Unrolled | None:
    instructions = case.compiled.instructions if case.compiled is not None else {}
    total = sum(line.total for line in instructions.values())
    if total < _MUCH:
        return None

    def inside(loop: Loop) -> int:
        lines = range(loop.range.start.line, loop.range.end.line + 1)
        return sum(line.total for number, line in instructions.items() if number in lines)

    largest = max(loops, key=inside)
    share = inside(largest) / total
    return Unrolled(largest, _copies(case, case.kernel, largest), total, share) if share >= _MOSTLY else None


def _copies(case: Case, kernel: Kernel, loop: Loop) -> int | None:
    """How many bodies the loop and the unrolled loops directly around it come to; None when a bound is not known."""
    values = integers(case.launch) | tile_sizes(case)
    around = [x for x in kernel.loops if x.kind == "static_range" and _holds(x, loop)]
    count = 1
    for each in around:
        bounds = [_value(text, values) for text in (each.start, each.stop, each.step or "1")]
        if None in bounds or not bounds[2]:
            return None
        first, last, step = (bound or 0 for bound in bounds)
        count *= max(0, -(-(last - first) // step))
    return count


def _holds(outer: Loop, inner: Loop) -> bool:
    return outer.range.start <= inner.range.start and inner.range.end <= outer.range.end


def _value(text: str | None, values: dict[str, int]) -> int | None:
    return values.get(text.strip()) if text is not None and text.strip() in values else integer(text)
