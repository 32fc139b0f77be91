"""`check --format json`; the schema is `docs/json/check.schema.json`."""

from __future__ import annotations

from tritonforge.domain.baseline import CheckResult, Comparison, Fact
from tritonforge.report.json_analyze import ignored_json
from tritonforge.report.json_parts import SCHEMA, Json, interval, number


def check_json(result: CheckResult) -> Json:
    """Return the report of `check` as one JSON object."""
    out: Json = {
        "schema": SCHEMA,
        "compared": result.compared,
        "results": [comparison_json(one) for one in result.comparisons],
        "baseline": result.baseline,
        "archs": list(result.archs),
        "notes": list(result.notes),
        "ignored": [{"file": one.finding.file, **ignored_json(one)} for one in result.ignored],
        "lapsed": [
            {"what": one.what, "where": one.where, "until": one.until, "reason": one.reason} for one in result.lapsed
        ],
    }
    if result.updated is not None:
        out["updated"] = list(result.updated)
    return out


def comparison_json(one: Comparison) -> Json:
    """Return what has become of one kernel on one problem."""
    return {
        "kernel": {
            "file": one.file,
            "name": one.kernel,
            "line": one.line,
            "end_line": one.end_line,
            "code_hash": one.code_hash,
        },
        "problem": one.describes,
        "problem_id": one.problem,
        "status": one.status,
        "ratio": number(one.ratio),
        "ratio_ci95": interval(one.ratio_ci95) if one.ratio_ci95 else None,
        "changes": {name: [_fact(before), _fact(after)] for name, (before, after) in one.changes.items()},
        "gpu": one.gpu,
        "arch": one.arch,
        "provenance": one.provenance,
        "time_us": [number(one.before_us), number(one.after_us)],
        "smallest_ratio": number(one.smallest),
        "reasons": list(one.reasons),
        "notes": list(one.notes),
        "doubtful": one.doubtful,
    }


def _fact(value: Fact) -> Fact:
    return number(value) if isinstance(value, float) else value
