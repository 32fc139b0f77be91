"""`analyze --format github`: workflow commands that GitHub turns into annotations, and a summary of the job.

The syntax is that of "Workflow commands for GitHub Actions": what would end a command or a property is percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tritonforge.domain.finding import Finding, Severity
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult
from tritonforge.report import wording
from tritonforge.report.text_findings import by_gravity, counted, counts

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "information": "notice", "hint": "notice"}
_SHOWN = 200
"""Rows of the summary's table; who wants more reads the report itself."""


def analyze_commands(result: AnalyzeResult, prefix: str = "") -> Iterator[str]:
    """Yield one workflow command for each place that could not be read and each finding, the gravest first.

    GitHub shows ten annotations of a kind for each step, and those are the first. `prefix` leads from the repository's
    root to the workspace (empty, or with a `/` at its end).
    """
    for error in result.errors:
        yield workflow_command(
            "error",
            {"file": repository_path(error.file, prefix), "line": error.line, "title": "cannot be read"},
            error.message,
        )
    for problem in result.comment_problems:
        at = problem.range
        where: dict[str, str | int] = {
            "file": repository_path(problem.file, prefix),
            "line": at.start.line,
            "col": at.start.column,
            "endColumn": at.end.column,
            "title": "comment without effect",
        }
        yield workflow_command("warning", where, problem.message)
    for finding in by_gravity(finding for kernel in result.kernels for finding in kernel.findings):
        yield _annotation(finding, prefix)


def analyze_summary(result: AnalyzeResult, prefix: str = "") -> str:
    """Return the report as the Markdown of a job's summary."""
    findings = [(kernel, finding) for kernel in result.kernels for finding in kernel.findings]
    said = ", ".join(counted(severity, count) for severity, count in counts(result))
    kernels = wording.plural(len(result.kernels), "kernel")
    lines = ["## TritonForge", "", f"{kernels}: {said or 'no findings'}.", ""]
    if findings:
        ordered = by_gravity(finding for _, finding in findings)
        owners = {id(finding): kernel for kernel, finding in findings}
        lines += ["| | where | finding | may gain |", "| --- | --- | --- | --- |"]
        lines += [_row(owners[id(finding)], finding, prefix) for finding in ordered[:_SHOWN]]
        if len(ordered) > _SHOWN:
            lines.append(f"\nand {len(ordered) - _SHOWN} more.")
        lines.append("")
    unjudged = [(one.file, one.line, one.message) for one in result.errors]
    useless = [(one.file, one.range.start.line, one.message) for one in result.comment_problems]
    for title, told in (("Could not be judged", unjudged), ("Comments without effect", useless)):
        if told:
            lines += [f"### {title}", ""]
            lines += [
                f"- {code_cell(f'{repository_path(file, prefix)}:{line}')} {cell(message)}"
                for file, line, message in told[:_SHOWN]
            ]
            lines.append("")
    ignored = [one for kernel in result.kernels for one in kernel.ignored]
    lapsed = [*result.lapsed, *(one for kernel in result.kernels for one in kernel.lapsed)]
    lines += ignored_markdown(ignored, lapsed)
    return "\n".join(lines)


def ignored_markdown(ignored: Sequence[Ignored], lapsed: Sequence[Lapsed]) -> list[str]:
    """Return what is ignored on purpose, folded away, and each silence that has ended."""
    lines: list[str] = []
    if ignored:
        lines += [f"<details><summary>{wording.plural(len(ignored), 'finding')} ignored on purpose</summary>", ""]
        for one in ignored[:_SHOWN]:
            until = f" until {cell(one.until)}" if one.until else ""
            place = f"{one.finding.file}:{one.finding.range.start.line}"
            lines.append(f"- {code_cell(place)} {one.finding.code} {one.finding.name} ({cell(one.where)}{until})")
        lines += ["", "</details>", ""]
    if lapsed:
        lines += [
            f"- {code_cell(one.where)}: {cell(one.what)} is no longer ignored (until {cell(one.until)})"
            for one in lapsed
        ]
        lines.append("")
    return lines


def _annotation(finding: Finding, prefix: str) -> str:
    start, end = finding.range.start, finding.range.end
    properties: dict[str, str | int] = {
        "file": repository_path(finding.file, prefix),
        "line": start.line,
        "endLine": end.line,
    }
    if start.line == end.line:
        # GitHub refuses columns of annotations that span lines.
        properties |= {"col": start.column, "endColumn": end.column}
    properties["title"] = f"{finding.code} {finding.name}"
    return workflow_command(_COMMANDS[finding.severity], properties, finding.message)


def repository_path(file: str, prefix: str) -> str:
    """Return a file as its repository knows it; one outside the workspace has its whole path."""
    return file if file.startswith("/") else prefix + file


def workflow_command(name: str, properties: dict[str, str | int], message: str) -> str:
    """Return a workflow command: `::error file=…,line=…::message`, with what would end it early encoded."""
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _row(analyzed: AnalyzedKernel, finding: Finding, prefix: str) -> str:
    place = f"{repository_path(finding.file, prefix)}:{finding.range.start.line}"
    where = f"{code_cell(place)}<br>{code_cell(analyzed.kernel.name)}"
    gain = wording.factor(finding.estimated_gain) if finding.estimated_gain is not None else ""
    return f"| {finding.severity} | {where} | **{finding.code} {finding.name}** {cell(finding.message)} | {gain} |"


def cell(text: str) -> str:
    """Return `text` for a cell of a table: nothing in it ends the cell, or is taken for HTML, a link or a picture."""
    clean = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(re.sub(r"[\\|`\[]", r"\\\g<0>", clean).split())


def code_cell(text: str) -> str:
    """Return `text` as code in a cell: between backticks, or as HTML where something in it would end those."""
    return f"<code>{cell(text)}</code>" if _NO_CODE.search(text) else f"`{' '.join(text.split())}`"


_NO_CODE = re.compile(r"[`|<>&\\]|^\s*$")
