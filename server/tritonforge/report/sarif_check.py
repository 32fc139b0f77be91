"""`check --format sarif`: SARIF 2.1.0. A result is recognised from run to run by kernel, problem and GPU."""

from __future__ import annotations

from collections import Counter

from tritonforge.domain.baseline import CheckResult, Comparison
from tritonforge.report import check_wording, wording
from tritonforge.report.json_parts import Json, number
from tritonforge.report.sarif import FINGERPRINT, ROOT, SCHEMA, fingerprint, place

_RULES = {
    "regressed": ("performance-regression", "A kernel is slower, or worse compiled, than its baseline.", "error"),
    "error": ("not-judged", "A kernel could not be compared with its baseline.", "warning"),
    "missing": ("baseline-without-kernel", "A baseline has no kernel or problem any more.", "note"),
}
_PREFIX = "TF-CHECK-"


def check_sarif(result: CheckResult, *, root: str, version: str, prefix: str = "") -> Json:
    """Return the report of `check` as a SARIF log with one run; `root` and `prefix` as `analyze_sarif` takes them."""
    shown = [one for one in result.comparisons if one.status in _RULES]
    used = [status for status in _RULES if any(one.status == status for one in shown)]
    seen: Counter[str] = Counter()
    results = [_result(one, used.index(one.status), seen) for one in shown]
    for one in results:
        place(one["locations"][0]["physicalLocation"]["artifactLocation"], prefix)
    rules = [
        {
            "id": _PREFIX + status,
            "name": _RULES[status][0],
            "shortDescription": {"text": _RULES[status][1]},
            "help": {"text": "What it means, and how baselines are kept: docs/check.md"},
            "defaultConfiguration": {"level": _RULES[status][2]},
            "properties": {"tags": ["performance", "triton"]},
        }
        for status in used
    ]
    properties: Json = {"compared": result.compared, "baseline": result.baseline, "archs": list(result.archs)}
    if result.target is not None:
        properties["target"] = wording.target(result.target)
    run: Json = {
        "tool": {"driver": {"name": "tritonforge", "semanticVersion": version, "rules": rules}},
        "automationDetails": {"id": "tritonforge-check/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": root.rstrip("/") + "/"}},
        "results": results,
        "properties": properties,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: Comparison, rule: int, seen: Counter[str]) -> Json:
    simple = one.kernel.rpartition(".")[2]
    return {
        "ruleId": _PREFIX + one.status,
        "ruleIndex": rule,
        "level": "note" if one.doubtful else _RULES[one.status][2],
        "message": {"text": check_wording.sentence(one)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": one.file},
                    "region": {"startLine": one.line, "endLine": max(one.line, one.end_line)},
                },
                "logicalLocations": [{"name": simple, "fullyQualifiedName": one.kernel, "kind": "function"}],
            }
        ],
        "partialFingerprints": {
            FINGERPRINT: fingerprint(seen, one.status, one.file, one.kernel, one.problem, one.gpu or "", one.arch)
        },
        "properties": {
            "ratio": number(one.ratio),
            "provenance": one.provenance,
            "changes": {name: [str(before), str(after)] for name, (before, after) in one.changes.items()},
        },
    }
