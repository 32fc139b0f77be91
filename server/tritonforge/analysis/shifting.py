"""A kernel's facts at other lines: the statements they were read from stand elsewhere in the file, unchanged."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tritonforge.domain.kernel import Access, ApiUse, Kernel, LaunchSite, LaunchValue, Loop, Operation
from tritonforge.domain.source import Range

T = TypeVar("T")
P = TypeVar("P", Access, ApiUse, Loop, Operation)


class Shift:
    """Maps lines: what began at each of `before` (ascending) begins at the same place of `after` now."""

    def __init__(self, before: Sequence[int], after: Sequence[int]) -> None:
        self._before = before
        self._by = [new - old for old, new in zip(before, after, strict=True)]
        self._seen: dict[tuple[int, int, int, int], Range] = {}
        self._same: dict[int, tuple[Range, Range]] = {}

    def line(self, line: int) -> int:
        """Return where a line is now; 0, which stands for none, stays."""
        return line + self._by[max(bisect.bisect_right(self._before, line) - 1, 0)] if line else 0

    def range(self, where: Range) -> Range:
        """Return where a range is now; it lies in one statement."""
        same = self._same.get(id(where))
        if same is not None:
            return same[1]
        start, end = where.start, where.end
        # Several facts speak of one place: they share its range from here on.
        key = start.line, start.column, end.line, end.column
        found = self._seen.get(key)
        if found is None:
            by = self.line(start.line) - start.line
            found = where
            if by:
                found = _but(where, start=_but(start, line=start.line + by), end=_but(end, line=end.line + by))
            self._seen[key] = found
        self._same[id(where)] = where, found
        return found


def shifted(kernel: Kernel, shift: Shift) -> Kernel:
    """Return a kernel, its suppressions left out, at its lines now."""

    def all_at(found: tuple[P, ...]) -> tuple[P, ...]:
        return tuple([_but(one, range=shift.range(one.range)) for one in found])

    reaches = kernel.reaches
    return replace(
        kernel,
        range=shift.range(kernel.range),
        name_range=shift.range(kernel.name_range),
        loops=all_at(kernel.loops),
        accesses=all_at(kernel.accesses),
        dots=all_at(kernel.dots),
        reductions=all_at(kernel.reductions),
        scans=all_at(kernel.scans),
        atomics=all_at(kernel.atomics),
        math=all_at(kernel.math),
        autotune=_but(kernel.autotune, range=shift.range(kernel.autotune.range)) if kernel.autotune else None,
        helpers=tuple(
            _but(helper, range=shift.range(helper.range)) if helper.range else helper for helper in kernel.helpers
        ),
        reaches=None
        if reaches is None
        else tuple(
            _but(
                reach,
                range=shift.range(reach.range),
                products=tuple([_but(one, line=shift.line(one.line)) for one in reach.products]),
            )
            for reach in reaches
        ),
        apis=all_at(kernel.apis),
        launch_sites=tuple(_site(site, shift) for site in kernel.launch_sites),
    )


def _site(site: LaunchSite, shift: Shift) -> LaunchSite:
    def at(where: Range | None) -> Range | None:
        return shift.range(where) if where is not None else None

    def values(found: tuple[tuple[str, LaunchValue], ...]) -> tuple[tuple[str, LaunchValue], ...]:
        return tuple(
            (name, _but(value, range=at(value.range), origin=at(value.origin)))
            if value.range is not None or value.origin is not None
            else (name, value)
            for name, value in found
        )

    return replace(
        site,
        range=shift.range(site.range),
        grid_range=at(site.grid_range),
        constexprs=values(site.constexprs),
        options=values(site.options),
    )


def _but(one: T, **changes: Any) -> T:
    """Do what `dataclasses.replace` does: that takes six times as long, for thousands of places at a new line."""
    made = object.__new__(type(one))
    made.__dict__.update(one.__dict__, **changes)
    return made
