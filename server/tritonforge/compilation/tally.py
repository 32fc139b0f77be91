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
    masks_vary: bool = False
    """Whether a mask depends on the program id."""

    @property
    def unmasked(self) -> dict[int, float]:
        """Return the bytes of the lanes that masks leave on, by line."""
        return {number: line.unmasked for number, line in self.lines.items()}


def combine(walks: Sequence[tuple[Tally, float]]) -> Work:
    """Return the weighted mean of several walks through the same program text as the noun `Work`."""
    total = sum(weight for _, weight in walks)
    lines: dict[int, LineWork] = {}
    for number in sorted({number for walk, _ in walks for number in walk.lines}):
        parts = [(walk.lines[number], weight / total) for walk, weight in walks if number in walk.lines]

        def mean(name: str, parts: Sequence[tuple[LineTally, float]] = parts) -> float:
            return sum(float(getattr(part, name)) * weight for part, weight in parts)

        accessed = mean("accessed")
        trips = [n for part, _ in parts for n in part.trips]
        lines[number] = LineWork(
            executions=mean("executions"),
            load_bytes=mean("load_bytes"),
            store_bytes=mean("store_bytes"),
            dot_flops=mean("dot_flops"),
            alu_ops=mean("alu_ops"),
            special_ops=mean("special_ops"),
            atomic_ops=mean("atomic_ops"),
            unmasked_fraction=mean("unmasked") / accessed if accessed else 1.0,
            moved_bytes=mean("moved_bytes"),
            pointers=tuple(sorted({name for part, _ in parts for name in part.pointers})),
            atomic_targets=max(part.atomic_targets for part, _ in parts),
            exact=all(part.exact for part, _ in parts),
            trips=sum(trips) / len(trips) if trips else None,
        )
    dots = [walk.dot for walk, _ in walks if walk.dot]
    dot = max(dots) if dots else None
    iterations = sum(walk.iterations * weight for walk, weight in walks) / total
    return Work(
        lines=lines,
        iterations=iterations,
        exact=all(walk.exact for walk, _ in walks),
        dot_tile=dot[1] if dot else None,
        dot_dtype=dot[2] if dot else None,
        imbalance=max(walk.iterations for walk, _ in walks) / iterations if iterations else 1.0,
    )
