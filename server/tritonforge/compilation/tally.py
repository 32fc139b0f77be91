"""Sums per source line, while a program is walked through, and the noun that they become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tritonforge.domain.compilation import LineWork, Work


@dataclass
class LineTally:
    """What one line has added up to: `accessed` bytes of all lanes of its accesses, `unmasked` of those left on."""

    executions: float = 0.0
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    dot_flops: float = 0.0
    alu_ops: float = 0.0
    special_ops: float = 0.0
    atomic_ops: float = 0.0
    moved_bytes: float = 0.0
    atomic_targets: float = 0.0
    unmasked: float = 0.0
    accessed: float = 0.0
    pointers: set[str] = field(default_factory=set)
    exact: bool = True
    trips: list[float] = field(default_factory=list)
    """Trip counts of the loop that starts on the line, each time that it is entered; empty where none is known."""


@dataclass
class Tally:
    """What one walk through a program has added up to. `dot` is the largest: its FLOPs, tile and operand type."""

    lines: defaultdict[int, LineTally] = field(default_factory=lambda: defaultdict(LineTally))
    iterations: float = 1.0
    exact: bool = True
    depends_on_program: bool = False
    dot: tuple[float, tuple[int, int, int], str] | None = None


def combine(walks: Sequence[Tally]) -> Work:
    """Return the mean of several walks through the same program text as the noun `Work`."""
    n = len(walks)
    lines: dict[int, LineWork] = {}
    for number in sorted({number for walk in walks for number in walk.lines}):
        parts = [walk.lines[number] for walk in walks if number in walk.lines]
        accessed = sum(p.accessed for p in parts)
        lines[number] = LineWork(
            executions=sum(p.executions for p in parts) / n,
            load_bytes=sum(p.load_bytes for p in parts) / n,
            store_bytes=sum(p.store_bytes for p in parts) / n,
            dot_flops=sum(p.dot_flops for p in parts) / n,
            alu_ops=sum(p.alu_ops for p in parts) / n,
            special_ops=sum(p.special_ops for p in parts) / n,
            atomic_ops=sum(p.atomic_ops for p in parts) / n,
            unmasked_fraction=sum(p.unmasked for p in parts) / accessed if accessed else 1.0,
            moved_bytes=sum(p.moved_bytes for p in parts) / n,
            pointers=tuple(sorted({name for p in parts for name in p.pointers})),
            atomic_targets=max(p.atomic_targets for p in parts),
            exact=all(p.exact for p in parts),
            trips=_mean([n for p in parts for n in p.trips]),
        )
    dots = [walk.dot for walk in walks if walk.dot]
    dot = max(dots) if dots else None
    return Work(
        lines=lines,
        iterations=sum(walk.iterations for walk in walks) / n,
        exact=all(walk.exact for walk in walks),
        dot_tile=dot[1] if dot else None,
        dot_dtype=dot[2] if dot else None,
    )


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
