"""Blocks that change their register layout inside a loop, by way of shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import samples_on, stalled
from tritonforge.diagnosis.signals.pace import has_headroom, pace
from tritonforge.diagnosis.signals.shared_passes import is_mostly_shared
from tritonforge.domain.blocks import Conversion
from tritonforge.domain.source import Range

_ROUNDS = 8
"""Executions from which a conversion counts as one in the hot loop."""
_SHARE = 0.5
"""Bytes through shared memory for conversions over bytes accessed in global memory from which they are worth a word."""
_SMALL = 1024
_WAITS = ("short_scoreboard", "barrier", "mio_throttle")


@dataclass(frozen=True)
class Converted:
    """`conversion`, the largest; `ratio` of the bytes that all such conversions move over those of global accesses.

    `waiting` is the counted share (0–1) of the stall samples on its line, if those are for shared memory; `decides`
    tells that shared memory sets the pace by the instructions that are issued.
    """

    conversion: Conversion
    count: int
    ratio: float
    waiting: float | None
    decides: bool


def converted(case: Case) -> Converted | None:
    """Return the conversions of the hot loop, where they move a good part of what the program moves.

    Silent for rows and blocks of less than 1 kB, where memory sets the pace (shared memory has time then), without
    headroom, and for what a dot needs: its operands, and its result on the way into the next dot.
    """
    compiled = case.compiled
    if compiled is None or not compiled.conversions or compiled.work is None or not has_headroom(case):
        return None
    if pace(case) in {"dram", "launch", "tensor", "spill", "atomic"}:
        return None
    found = [
        c
        for c in compiled.conversions
        if c.through == "shared" and c.loop is not None and (c.executions or 0.0) >= _ROUNDS and not _is_needed(c)
    ]
    accessed = sum(line.load_bytes + line.store_bytes for line in compiled.work.lines.values())
    if not found or not accessed:
        return None
    ratio = sum(2 * c.nbytes * (c.executions or 0.0) for c in found) / accessed  # written once and read once
    worst = max(found, key=lambda c: c.nbytes * (c.executions or 0.0))
    samples = samples_on(case, [Range.of(worst.line, 1, worst.line, 1)])
    waiting = samples if samples is not None and stalled(case, *_WAITS) >= samples else None
    if ratio < _SHARE:
        return None
    return Converted(worst, len(found), ratio, waiting, _decides(case))


def _decides(case: Case) -> bool:
    return case.counters is None and pace(case) in {"alu", "shared"} and is_mostly_shared(case)


def _is_needed(conversion: Conversion) -> bool:
    """Whether a dot needs it, or it is small (the result of a reduction on its way to a store)."""
    if conversion.nbytes < _SMALL or len(conversion.shape) < 2:
        return True
    return "dot-operand" in {conversion.source, conversion.target} or conversion.source in {"mma", "mfma", "wmma"}
