"""Small builders that rules share: findings, evidence, places and numbers in words."""

from __future__ import annotations

from collections.abc import Mapping

from tritonforge.diagnosis.case import Case
from tritonforge.domain.finding import Severity
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.provenance import Evidence, Provenance
from tritonforge.domain.source import Position, Range


def evidence(*facts: tuple[str, float | str | None, str, Provenance]) -> Mapping[str, Evidence]:
    """Build an evidence table from (name, value, unit, provenance), leaving out what is not known."""
    return {
        name: Evidence(round(value, 4) if isinstance(value, float) else value, unit, provenance)
        for name, value, unit, provenance in facts
        if value is not None
    }


def head_of(place: Range) -> Range:
    """Return the first line of `place`: a loop is pointed at by its header, not by its whole body."""
    if place.start.line == place.end.line:
        return place
    return Range(place.start, Position(place.start.line + 1, 1))


def line_range(kernel: Kernel, line: int) -> Range:
    """Return the place of an operation of `kernel` that starts on `line`, or the whole line when none does."""
    operations = (*kernel.dots, *kernel.reductions, *kernel.scans, *kernel.atomics, *kernel.math)
    places = [o.range for o in operations] + [a.range for a in kernel.accesses] + [x.range for x in kernel.loops]
    found = next((place for place in places if place.start.line == line), None)
    return head_of(found) if found is not None else Range.of(line, 1, line + 1, 1)


def timed(case: Case, *, grave: bool = True) -> Severity:
    """Return the severity that the evidence of `case` allows: a warning needs compiled or measured evidence."""
    if case.compiled is None and case.counters is None:
        return "hint"
    return "warning" if grave else "information"


def number(value: float) -> str:
    """Write a number the way a person reads it: three significant digits, thousands apart, no trailing zeros."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == int(value):
        return str(int(value))
    return f"{value:.3g}"


def times(value: float) -> str:
    """Write a ratio: `2.4x`, `35x`."""
    return f"{value:.0f}x" if value >= 10 else f"{value:.1f}x"


def percent(value: float) -> str:
    """Write a share 0–1 as a percentage: `93 %`."""
    return f"{100 * value:.0f} %" if value >= 0.01 or value == 0 else f"{100 * value:.2g} %"


def microseconds(value: float) -> str:
    """Write a time in µs with its unit."""
    return f"{number(value)} µs"


def gain_of(value: float | None) -> float | None:
    """Round an estimated speedup for display; None when there is none worth naming."""
    return round(value, 2) if value is not None and value > 1.05 else None
