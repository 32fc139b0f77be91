"""`check --format github`: annotations of a workflow, and the summary of the job in Markdown, before and after."""

from __future__ import annotations

from collections.abc import Iterator

from tritonforge.domain.baseline import CheckResult, Comparison, Status
from tritonforge.report import check_wording, wording
from tritonforge.report.github import cell, code_cell, ignored_markdown, repository_path, workflow_command

_COMMANDS: dict[Status, str] = {"regressed": "error", "error": "error", "missing": "warning", "improved": "notice"}
_TITLES: dict[Status, str] = {
    "regressed": "Performance regression",
    "error": "Not judged",
    "missing": "In the baseline only",
    "improved": "Faster than the baseline",
}
_SIGNS: dict[Status, str] = {
    "regressed": "❌", "error": "⚠️", "missing": "❔", "improved": "🚀", "new": "🆕", "ok": "✅",
}  # fmt: skip
_SHOWN = 200


def check_commands(result: CheckResult, prefix: str = "") -> Iterator[str]:
    """Yield one workflow command for each kernel that a person should look at, regressions first."""
    order = list(_COMMANDS)
    for one in sorted(result.comparisons, key=lambda c: order.index(c.status) if c.status in order else len(order)):
        if one.status not in _COMMANDS:
            continue
        name = "warning" if one.doubtful else _COMMANDS[one.status]
        properties: dict[str, str | int] = {
            "file": repository_path(one.file, prefix), "line": one.line, "title": _TITLES[one.status],
        }  # fmt: skip
        yield workflow_command(name, properties, check_wording.sentence(one))
    for ended in result.lapsed:
        yield workflow_command(
            "warning", {"title": "No longer ignored"}, f"{ended.where}: {ended.what} was ignored until {ended.until}"
        )
    if result.compared == "compiled":
        yield workflow_command("notice", {"title": "Checked without a GPU"}, check_wording.ONLY_COMPILED)


def check_summary(result: CheckResult, prefix: str = "") -> str:
    """Return the report of `check` as the Markdown of a job's summary."""
    lines = ["## TritonForge check", "", cell(check_wording.summary(result)), ""]
    if result.target is not None:
        lines += [f"On {cell(wording.target(result.target))}.", ""]
    if result.compared == "compiled":
        lines += [f"> {check_wording.ONLY_COMPILED}", ""]
    if result.comparisons:
        lines += [
            "| | kernel | on | before | after | ratio (95 %) | what |",
            "| --- | --- | --- | ---: | ---: | --- | --- |",
        ]
        lines += [_row(one, prefix) for one in result.comparisons[:_SHOWN]]
        if len(result.comparisons) > _SHOWN:
            lines.append(f"\nand {len(result.comparisons) - _SHOWN} more.")
        lines.append("")
    lines += [f"- {cell(note)}" for note in result.notes]
    if result.updated:
        lines += ["", "### Changes of the baseline", "", "```diff", *(_diff(one) for one in result.updated), "```"]
    lines += ["", *ignored_markdown(result.ignored, result.lapsed)]
    return "\n".join(lines) + "\n"


def _row(one: Comparison, prefix: str) -> str:
    place = "<br>".join([
        code_cell(f"{repository_path(one.file, prefix)}:{one.line}"), code_cell(one.kernel), cell(one.describes),
    ])  # fmt: skip
    before, after = (wording.time_us(t) if t is not None else "–" for t in (one.before_us, one.after_us))
    said = "<br>".join([
        *map(cell, one.reasons), *map(code_cell, check_wording.changed(one)), *map(cell, one.notes),
    ])  # fmt: skip
    status = f"{_SIGNS[one.status]} {one.status}"
    columns = (status, place, cell(check_wording.where(one)), before, after, check_wording.ratio(one), said)
    return f"| {' | '.join(columns)} |"


def _diff(change: str) -> str:
    return " ".join(change.split()).replace("```", "'''")
