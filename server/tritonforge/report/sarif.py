"""`analyze --format sarif`: SARIF 2.1.0, as code hosts and editors read it.

Paths are relative to the root of the repository, which is `SRCROOT`. Columns count code points. A result is recognised
from run to run by its rule, its kernel, and which of the rule's places in the kernel it is, so one that moves stays.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from tritonforge.domain.finding import Finding, Severity
from tritonforge.domain.ignoring import Ignored
from tritonforge.domain.kernel import CommentProblem, Kernel, SourceError
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult
from tritonforge.domain.source import Range
from tritonforge.report import wording
from tritonforge.report.json_parts import Json, number

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"
UNREADABLE = "TF000"
"""The rule under which what could not be read is told, so that a code host shows it in its place."""
COMMENT = "TF001"
"""The rule under which a comment to this tool is told that does nothing."""

_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
FINGERPRINT = "tritonforge/v1"
"""The name under which results carry what tells them apart."""


def analyze_sarif(
    result: AnalyzeResult, *, root: str, version: str, prefix: str = "", documentation: str | None = None
) -> Json:
    """Return the report of `analyze` as a SARIF log with one run.

    `root` is the file URI of the repository, `prefix` the way from there to the workspace (empty, or with a `/` at its
    end), `documentation` the URL under which the pages of the rules are.
    """
    findings = [(analyzed, finding) for analyzed in result.kernels for finding in analyzed.findings]
    silenced = [one.finding for analyzed in result.kernels for one in analyzed.ignored]
    shown = [finding for _, finding in findings]
    rules = _rules([*silenced, *shown], documentation, result)
    places = {rule["id"]: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = [_result(analyzed, finding, places, seen) for analyzed, finding in findings]
    results += [_suppressed(analyzed, one, places, seen) for analyzed in result.kernels for one in analyzed.ignored]
    results += [_unreadable(error, places, seen) for error in result.errors]
    results += [_without_effect(problem, places, seen) for problem in result.comment_problems]
    for one in results:
        place(one["locations"][0]["physicalLocation"]["artifactLocation"], prefix)
    driver: Json = {"name": "tritonforge", "semanticVersion": version, "rules": rules}
    if documentation:
        driver["informationUri"] = documentation
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": root.rstrip("/") + "/"}},
        "results": results,
    }
    if result.target is not None:
        run["properties"] = {"target": wording.target(result.target)}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(findings: Sequence[Finding], documentation: str | None, result: AnalyzeResult) -> list[Json]:
    by_code = {finding.code: finding for finding in findings}
    rules = [_rule(by_code[code], documentation) for code in sorted(by_code)]
    if result.comment_problems:
        rules.insert(0, {
            "id": COMMENT,
            "name": "comment-without-effect",
            "shortDescription": {"text": "A comment to TritonForge does nothing."},
            "defaultConfiguration": {"level": "warning"},
        })  # fmt: skip
    if result.errors:
        rules.insert(0, {
            "id": UNREADABLE,
            "name": "cannot-be-read",
            "shortDescription": {"text": "A file or a part of it could not be analysed."},
            "defaultConfiguration": {"level": "error"},
        })  # fmt: skip
    return rules


def _rule(finding: Finding, documentation: str | None) -> Json:
    sentence = finding.name.replace("-", " ")
    rule: Json = {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": f"{sentence[:1].upper()}{sentence[1:]}."},
        "help": {"text": f"What it means, how to mend it and when to ignore it: {finding.url}"},
        "properties": {"tags": ["performance" if finding.code < "TF5" else "correctness", "triton"]},
    }
    if documentation:
        rule["helpUri"] = f"{documentation.rstrip('/')}/{finding.url.removeprefix('docs/')}"
    return rule


def _result(analyzed: AnalyzedKernel, finding: Finding, places: dict[str, int], seen: Counter[str]) -> Json:
    properties: Json = {
        "severity": finding.severity,
        "provenance": finding.provenance,
        "evidence": {
            name: f"{wording.evidence(fact)} ({fact.provenance})" for name, fact in finding.evidence.items()
        },
    }  # fmt: skip
    if finding.estimated_gain is not None:
        properties["estimatedGain"] = number(finding.estimated_gain)
    if finding.launch is not None:
        properties["launch"] = finding.launch
    return {
        "ruleId": finding.code,
        "ruleIndex": places[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": finding.file},
                    "region": _region(finding.range),
                },
                "logicalLocations": [_logical(analyzed.kernel)],
            }
        ],
        "partialFingerprints": {
            FINGERPRINT: fingerprint(
                seen, finding.code, finding.file, analyzed.kernel.name, str(_step(analyzed, finding))
            )
        },
        "properties": properties,
    }


def _suppressed(analyzed: AnalyzedKernel, one: Ignored, places: dict[str, int], seen: Counter[str]) -> Json:
    """Return a finding that is ignored on purpose: code hosts keep it closed, and see when it comes back."""
    until = f" until {one.until}" if one.until else ""
    suppression = {
        "kind": "inSource" if one.by == "comment" else "external",
        "justification": f"{one.where}{until}",
    }
    return {**_result(analyzed, one.finding, places, seen), "suppressions": [suppression]}


def _step(analyzed: AnalyzedKernel, finding: Finding) -> int:
    """Return which of the places of its rule in the kernel the finding is about: 0 for the first."""
    every = (*analyzed.findings, *(one.finding for one in analyzed.ignored))
    same = sorted({one.range.start for one in every if one.code == finding.code})
    return same.index(finding.range.start)


def _unreadable(error: SourceError, places: dict[str, int], seen: Counter[str]) -> Json:
    region = {"startLine": max(1, error.line)}
    return _of_file(UNREADABLE, error.file, region, error.message, level="error", places=places, seen=seen)


def _without_effect(problem: CommentProblem, places: dict[str, int], seen: Counter[str]) -> Json:
    region = _region(problem.range)
    return _of_file(COMMENT, problem.file, region, problem.message, level="warning", places=places, seen=seen)


def _of_file(
    rule: str, file: str, region: Json, message: str, *, level: str, places: dict[str, int], seen: Counter[str]
) -> Json:
    """Return a result that is about a place in a file, and no kernel."""
    return {
        "ruleId": rule,
        "ruleIndex": places[rule],
        "level": level,
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}],
        "partialFingerprints": {FINGERPRINT: fingerprint(seen, rule, file, message)},
    }


def _region(at: Range) -> Json:
    return {
        "startLine": at.start.line,
        "startColumn": at.start.column,
        "endLine": at.end.line,
        "endColumn": at.end.column,
    }


def _logical(kernel: Kernel) -> Json:
    return {"name": kernel.simple_name, "fullyQualifiedName": kernel.name, "kind": "function"}


def place(artifact: Json, prefix: str) -> None:
    """Turn a path into a URI. Files outside the workspace are named by their whole path, which no base applies to."""
    file = artifact["uri"]
    if file.startswith("/"):
        artifact["uri"] = f"file://{_quoted(file)}"
    elif file[1:2] == ":":
        artifact["uri"] = f"file:///{_quoted(file, safe='/:')}"
    else:
        artifact |= {"uri": _quoted(prefix + file), "uriBaseId": ROOT}


def _quoted(path: str, safe: str = "/") -> str:
    """Return a path as part of a URI; what is no text in it (a name of other bytes) as those bytes."""
    return quote(path.encode("utf-8", "surrogateescape"), safe=safe)


def fingerprint(seen: Counter[str], *parts: str) -> str:
    """Return a hash of `parts`; of the second result with the same ones, another."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"
