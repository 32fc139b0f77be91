"""Accesses whose neighbouring lanes are far apart in memory, so that most of each sector is fetched for nothing.

Counted sectors decide where there are any; else the compiled launch with its own strides: a transposed load looks
strided in the source, but its block covers whole sectors, and the compiler stages it through shared memory at full
bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import SECTOR, metric
from tritonforge.diagnosis.facts import accesses_on, useful_share
from tritonforge.domain.provenance import Provenance

_WASTEFUL = 0.5
_MAIN_SHARE = 0.5


@dataclass(frozen=True)
class Strided:
    """On `line`, the worst, only `efficiency` (0–1) of the sector bytes are used.

    `share` (0–1) of all sector bytes of the launch are fetched by lines that waste as much. Bytes are of the whole
    launch where they were counted (`measured`), else of one program.
    """

    line: int | None
    efficiency: float
    share: float
    sector_bytes: float
    used_bytes: float
    provenance: Provenance = "derived"


def strided_access(case: Case) -> Strided | None:
    """Return the most wasteful line, when its sectors make up a good part of the launch's traffic; else None."""
    if metric(case, "global_sectors") is not None:
        return _counted(case)
    work = case.compiled.work if case.compiled is not None else None
    if work is None:
        return None
    lines = {n: w for n, w in work.lines.items() if not w.atomic_ops and w.load_bytes + w.store_bytes > 0}
    fetched = sum(w.moved_bytes for w in lines.values())
    if fetched <= 0:
        return None
    line = max(lines, key=lambda n: lines[n].moved_bytes - useful_share(lines[n]))
    worst = lines[line]
    used = useful_share(worst)
    if worst.moved_bytes <= 0 or not _spans_block(case, line):
        return None
    wasteful = sum(w.moved_bytes for w in lines.values() if useful_share(w) <= _WASTEFUL * w.moved_bytes)
    found = Strided(line, used / worst.moved_bytes, wasteful / fetched, worst.moved_bytes, used)
    return found if found.efficiency <= _WASTEFUL and found.share >= _MAIN_SHARE else None


def _counted(case: Case) -> Strided | None:
    """The same from what was counted: sectors asked for against the least that the bytes of the lanes need."""
    every, least = metric(case, "global_sectors"), metric(case, "ideal_global_sectors")
    if not every or least is None or case.counters is None:
        return None
    lines = {n: one for n, one in case.counters.lines.items() if one.sectors > 0}
    wasteful = {n: one for n, one in lines.items() if one.ideal_sectors <= _WASTEFUL * one.sectors}
    if lines:
        fetched = sum(one.sectors for one in lines.values())
        share = sum(one.sectors for one in wasteful.values()) / fetched
        if share < _MAIN_SHARE:
            return None
        line = max(wasteful, key=lambda n: wasteful[n].sectors - wasteful[n].ideal_sectors)
        worst = wasteful[line]
        used = worst.ideal_sectors / worst.sectors
        return Strided(line, used, share, worst.sectors * SECTOR, worst.ideal_sectors * SECTOR, "measured")
    if least > _WASTEFUL * every:
        return None
    return Strided(None, least / every, 1.0, every * SECTOR, least * SECTOR, "measured")


def _spans_block(case: Case, line: int) -> bool:
    """Whether the line accesses blocks: a lone scalar fills a sector badly, which is another fault."""
    accesses = (*accesses_on(case.kernel, line, "load"), *accesses_on(case.kernel, line, "store"))
    return not accesses or any(a.block is not False for a in accesses)
