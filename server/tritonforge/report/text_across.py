"""The matrix of versions and targets for people, and the one source that is kept."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.domain.across import AcrossResult, AcrossVersion, Cell
from tritonforge.report import wording
from tritonforge.report.text import BLANK, WIDTH, Line, Span, indent, line, shortened, table, wrap
from tritonforge.report.text_optimize import diff_text, verdict_text

_TITLE, _CELL = 44, 18
"""Columns of a version's title at most, and about those of a target's cell."""


def across_text(results: Iterable[AcrossResult], *, applied: bool = False, width: int = WIDTH) -> list[Line]:
    """Return the comparison of targets, a matrix for each kernel; `applied`: the chosen version was written."""
    out: list[Line] = []
    for result in results:
        out += [BLANK, BLANK, *_result(result, applied=applied, width=width)]
    return out


def _result(result: AcrossResult, *, applied: bool, width: int) -> list[Line]:
    names = [target.name for target in result.targets]
    out = [line(Span(f"{result.kernel.name} across {len(names)} targets", "title"))]
    for target in result.targets:
        how = "measured" if result.provenance[target.name] == "measured" else "predicted"
        out.append(line(f"  {target.name}: {target.gpu or 'no GPU'}, {how}"))
    title = max(20, min(_TITLE, width - 6 - _CELL * len(names)))
    rows: list[list[Span | str]] = [["", *names]]
    for place, version in enumerate(result.versions):
        mark = "→ " if place == result.chosen else "  "
        rows.append([mark + shortened(_title(version), title), *(_cell(version.cells.get(name)) for name in names)])
    out += [BLANK, *indent(table(rows, right=range(1, len(names) + 1)))]
    refused = [
        f"{shortened(version.title, _TITLE)} on {name}: {cell.reason}"
        for version in result.versions
        for name, cell in version.cells.items()
        if not cell.accepted and cell.reason
    ]
    for reason in refused:
        out += indent(wrap([reason], width=width - 2, hanging=2))
    out += [BLANK, *wrap([result.why], width=width)]
    if result.best is not None:
        if result.best.trial.verdict is not None:
            out += indent(verdict_text(result.best.trial.verdict, width - 2))
        out += [BLANK, *diff_text(result.best.diff)]
        out.append(line("Written." if applied else "Add --apply to write this version."))
    return out


def _title(version: AcrossVersion) -> str:
    return f"{version.title} (best on {', '.join(version.found_on)})" if version.found_on else version.title


def _cell(cell: Cell | None) -> str:
    if cell is None or not cell.accepted or cell.time_us is None:
        return "–"
    return f"{wording.time_us(cell.time_us)} {cell.speedup or 1.0:.2f}x"
