"""The matrix of versions and targets as JSON: the key `across` of `optimize --format json` with several targets."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.domain.across import AcrossResult, Cell
from tritonforge.report.json_parts import Json, change_json, interval, kernel_json, number, target_json


def across_json(results: Iterable[AcrossResult]) -> list[Json]:
    """Return one object for each kernel; `chosen` is a place in `versions`, and `best` what to apply.

    Raises:
        ValueError: when what is to be applied has no passed verdict.
    """
    return [_result(result) for result in results]


def _result(result: AcrossResult) -> Json:
    best = result.best
    return {
        "kernel": kernel_json(result.kernel),
        "targets": [target_json(target) for target in result.targets],
        "versions": [
            {
                "title": version.title,
                "kind": version.kind,
                "found_on": list(version.found_on),
                "targets": {name: _cell(cell, result.provenance[name]) for name, cell in version.cells.items()},
            }
            for version in result.versions
        ],
        "chosen": result.chosen,
        "why": result.why,
        "worst_loss": number(result.worst_loss),
        "best": None if best is None else {"title": best.trial.candidate.title, **change_json(best)},
    }


def _cell(cell: Cell, provenance: str) -> Json:
    return {
        "accepted": cell.accepted,
        "reason": cell.reason,
        "time_us": None if cell.time_us is None else number(cell.time_us),
        "speedup": None if cell.speedup is None else number(cell.speedup),
        "speedup_ci95": None if cell.speedup_ci95 is None else interval(cell.speedup_ci95),
        "provenance": provenance,
    }
