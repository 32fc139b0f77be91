"""A kernel's facts at other lines: the statements they were read from stand elsewhere in the file, unchanged."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace

from tritonforge.domain.kernel import Kernel, Operation
from tritonforge.domain.source import Position, Range


class Shift:
    """Maps lines: what began at each of `before` (ascending) begins at the same place of `after` now."""

    def __init__(self, before: Sequence[int], after: Sequence[int]) -> None:
        self._before = before
        self._by = [new - old for old, new in zip(before, after, strict=True)]
        self._seen: dict[Range, Range] = {}

    def line(self, line: int) -> int:
        """Return where a line is now; 0, which stands for none, stays."""
        return line + self._by[max(bisect.bisect_right(self._before, line) - 1, 0)] if line else 0

    def range(self, where: Range) -> Range:
        """Return where a range is now; it lies in one statement."""
        found = self._seen.get(where)
        if found is None:
            by = self.line(where.start.line) - where.start.line
            start, end = where.start, where.end
            found = Range(Position(start.line + by, start.column), Position(end.line + by, end.column)) if by else where
            self._seen[where] = found
        return found


def shifted(kernel: Kernel, shift: Shift) -> Kernel:
    """Return a kernel, its launch sites and suppressions left out, at its lines now."""

    def operations(found: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return tuple(replace(one, range=shift.range(one.range)) for one in found)

    reaches = kernel.reaches
    return replace(
        kernel,
        range=shift.range(kernel.range),
        name_range=shift.range(kernel.name_range),
        loops=tuple(replace(loop, range=shift.range(loop.range)) for loop in kernel.loops),
        accesses=tuple(replace(access, range=shift.range(access.range)) for access in kernel.accesses),
        dots=operations(kernel.dots),
        reductions=operations(kernel.reductions),
        scans=operations(kernel.scans),
        atomics=operations(kernel.atomics),
        math=operations(kernel.math),
        autotune=replace(kernel.autotune, range=shift.range(kernel.autotune.range)) if kernel.autotune else None,
        helpers=tuple(
            replace(helper, range=shift.range(helper.range)) if helper.range else helper for helper in kernel.helpers
        ),
        reaches=None
        if reaches is None
        else tuple(
            replace(
                reach,
                range=shift.range(reach.range),
                products=tuple(replace(one, line=shift.line(one.line)) for one in reach.products),
            )
            for reach in reaches
        ),
        apis=tuple(replace(use, range=shift.range(use.range)) for use in kernel.apis),
    )
