"""`analyze` for code hosts and as a page: held to the schema of SARIF, to the syntax of workflow commands, to golden files.

`UPDATE_GOLDEN=1 pytest tests/report` rewrites the golden files: read the diff.
"""

from __future__ import annotations

import copy
import json
import lzma
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
import report_samples as samples

from tritonforge.domain.kernel import SourceError
from tritonforge.domain.profile import LineHeat
from tritonforge.domain.results import AnalyzedKernel, AnalyzeResult, Assessment
from tritonforge.domain.source import Range
from tritonforge.report.github import analyze_commands, analyze_summary
from tritonforge.report.html_analyze import analyze_html
from tritonforge.report.sarif import analyze_sarif
from tritonforge.report.text import plain
from tritonforge.report.text_analyze import analyze_text

TESTS = Path(__file__).parent.parent
GOLDEN = TESTS / "golden" / "report"
SCHEMA = json.loads(lzma.decompress((TESTS / "data" / "sarif" / "sarif-2.1.0-rtm.5.json.xz").read_bytes()))
SOURCES = {samples.FILE: samples.SOURCE}
NASTY = 'a <b>|c & "d"\n::error::100%, e:f'

GPUS = ("sm_80", "sm_90", "sm_120", "gfx942")
EVERYWHERE = AnalyzeResult(
    (
        AnalyzedKernel(
            samples.KERNEL,
            (samples.BIG,),
            "",
            tuple(
                Assessment(
                    replace(samples.COMPILATION, arch=arch, tensor_path="mfma" if arch == "gfx942" else "mma"),
                    replace(samples.PREDICTION, time_us=1562.3 / number, interval=(1210.0 / number, 1980.0 / number)),
                    samples.BOTTLENECK,
                    {11: LineHeat(0.6), 13: LineHeat(0.39), 14: LineHeat(0.01)},
                )
                for number, arch in enumerate(GPUS, 1)
            ),
            (samples.TILE,),
        ),
    ),
    (),
    samples.OFFLINE,
)


def sarif(result=samples.ANALYZE, **options):
    log = analyze_sarif(result, **{"root": "file:///w/repo", "version": "1.2.3", **options})
    jsonschema.Draft4Validator(SCHEMA).validate(json.loads(json.dumps(log, allow_nan=False)))
    return log


REPORTS = {
    "analyze.sarif": lambda: json.dumps(sarif(), indent=2, ensure_ascii=False) + "\n",
    "analyze.github.txt": lambda: "".join(f"{one}\n" for one in analyze_commands(samples.ANALYZE)),
    "analyze.github.md": lambda: analyze_summary(samples.ANALYZE),
    "analyze.html": lambda: analyze_html(EVERYWHERE, SOURCES, version="1.2.3"),
    "analyze_compared.txt": lambda: plain(analyze_text(EVERYWHERE)),
    "analyze_compared_80.txt": lambda: plain(analyze_text(EVERYWHERE, width=80)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_as_its_golden_file(name):
    text, path = REPORTS[name](), GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# --- SARIF ------------------------------------------------------------------------------------------------------------


def test_an_empty_result_is_a_log_too():
    (run,) = sarif(AnalyzeResult())["runs"]
    assert run["results"] == []


def test_the_schema_refuses_what_is_no_sarif():
    wrong = copy.deepcopy(sarif())
    wrong["runs"][0]["results"][0]["level"] = "hint"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(wrong)


def test_levels_regions_and_rules_of_results():
    (run,) = sarif()["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": "file:///w/repo/"}}
    by_rule = {result["ruleId"]: result for result in run["results"]}
    assert {code: one["level"] for code, one in by_rule.items()} == {
        "TF203": "warning", "TF502": "note", "TF404": "note", "TF000": "error", "TF001": "warning",
    }  # fmt: skip
    for code, result in by_rule.items():
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == code
    place = by_rule["TF203"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "examples/matmul.py", "uriBaseId": "SRCROOT"}
    start, end = samples.TILE.range.start, samples.TILE.range.end
    assert place["region"] == {
        "startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column,
    }  # fmt: skip


def uris(log):
    return [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in log["runs"][0]["results"]]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("ops/söftmax (1).py", {"uri": "server/ops/s%C3%B6ftmax%20%281%29.py", "uriBaseId": "SRCROOT"}),
        ("/elsewhere/a b.py", {"uri": "file:///elsewhere/a%20b.py"}),
        ("C:/elsewhere/a.py", {"uri": "file:///C:/elsewhere/a.py"}),
    ],
)
def test_paths_become_uris_below_the_repository(file, expected):
    finding = replace(samples.TILE, file=file)
    result = AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=(finding,), launch_note="none"),))
    assert uris(sarif(result, prefix="server/")) == [expected]


def test_rules_say_where_their_page_is_when_it_is_on_the_web():
    with_pages = sarif(documentation="https://docs.example/tf/")["runs"][0]["tool"]["driver"]["rules"]
    assert [rule.get("helpUri") for rule in with_pages] == [
        None, None, *(f"https://docs.example/tf/rules/{code}.md" for code in ("TF203", "TF404", "TF502")),
    ]  # fmt: skip
    assert all("helpUri" not in rule for rule in sarif()["runs"][0]["tool"]["driver"]["rules"])


def fingerprints(*findings):
    result = AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=findings, launch_note="none"),))
    return [one["partialFingerprints"]["tritonforge/v1"] for one in sarif(result)["runs"][0]["results"]]


def test_a_finding_keeps_its_fingerprint_when_it_moves_and_is_worded_anew():
    moved = replace(samples.TILE, range=Range.of(53, 20, 53, 32), message="Otherwise.", severity="hint")
    assert fingerprints(samples.TILE) == fingerprints(moved)


def test_fingerprints_tell_findings_apart():
    second = replace(samples.TILE, range=Range.of(14, 1, 14, 5))
    found = fingerprints(samples.TILE, second, replace(samples.TILE, message="The same place again."), samples.MASK)
    assert len(set(found)) == 4
    assert found[:2] == fingerprints(samples.TILE, second)


# --- GitHub -----------------------------------------------------------------------------------------------------------


def unescaped(text):
    for code, sign in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def test_nothing_in_a_message_or_a_path_can_end_a_command():
    finding = replace(samples.TILE, file="a,b:c%.py", message=NASTY)
    result = AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=(finding,)),), (SourceError("x.py", 3, NASTY),))
    commands = list(analyze_commands(result, "server/"))
    assert len(commands) == 2
    for command, kind, path in zip(commands, ("error", "warning"), ("server/x.py", "server/a,b:c%.py"), strict=True):
        assert "\n" not in command
        name, properties, message = re.fullmatch(r"::(\w+) (.*?)::(.*)", command).groups()
        assert name == kind
        assert unescaped(dict(one.split("=") for one in properties.split(","))["file"]) == path
        assert unescaped(message) == NASTY


def test_an_annotation_of_several_lines_has_no_columns():
    finding = replace(samples.TILE, range=Range.of(10, 5, 13, 28))
    (command,) = analyze_commands(AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=(finding,)),)))
    assert "line=10,endLine=13," in command
    assert "col" not in command.partition("::TF")[0].partition("title")[0]


def test_the_gravest_annotations_come_first():
    findings = (samples.TUNING, samples.TILE)
    commands = list(analyze_commands(AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=findings),))))
    assert [command.partition(" ")[0] for command in commands] == ["::warning", "::notice"]


def test_a_row_of_the_summary_stays_one_row():
    finding = replace(samples.TILE, message=NASTY)
    summary = analyze_summary(AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=(finding,)),)))
    (row,) = [one for one in summary.splitlines() if "TF203" in one]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert "<b>" not in row


# --- HTML -------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Checks that every element is closed, and collects what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.refers, self.tags, self.ids = [], [], set(), set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        self.refers += [value for name, value in attrs if name in {"href", "src", "action", "data"}]
        self.ids |= {value for name, value in attrs if name == "id"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_nobody_for_anything():
    page = Page(analyze_html(samples.ANALYZE, SOURCES, version="1.2.3"))
    assert page.refers == ["#k0", "#k1"]
    assert page.ids == {"k0", "k1"}
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert "http" not in analyze_html(EVERYWHERE, SOURCES, version="1").replace("http-equiv", "")


def test_text_of_the_user_is_no_markup():
    finding = replace(samples.TILE, message="<script>alert(1)</script>")
    result = AnalyzeResult((AnalyzedKernel(samples.KERNEL, findings=(finding,), launch_note="<i>"),))
    page = Page(analyze_html(result, {samples.FILE: samples.SOURCE.replace("acc +=", "acc <b>")}, version="1"))
    assert not page.tags & {"script", "b>"}


def test_a_line_shows_its_heat_and_its_findings_below():
    text = analyze_html(EVERYWHERE, SOURCES, version="1")
    rows = text.splitlines()
    at = next(number for number, row in enumerate(rows) if 'class="number">13<' in row)
    assert "--share:0.390" in rows[at]
    assert "TF203" in rows[at + 1]
    assert "--share:0.010" not in text


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_comparison_fits_and_leaves_no_architecture_out(width):
    lines = [one.text for one in analyze_text(EVERYWHERE, width=width)]
    table = lines[lines.index("Compiled for 4 architectures") :]
    table = table[: table.index("")]
    assert max(map(len, table)) <= width
    assert [word for one in table for word in one.split() if word in GPUS] == list(GPUS)


def test_many_kernels_without_anything_to_say_are_told_in_a_few_lines():
    quiet = tuple(
        AnalyzedKernel(replace(samples.KERNEL, name=f"k{number}"), launch_note="Nothing runs it.")
        for number in range(9)
    )
    text = plain(analyze_text(AnalyzeResult(quiet)))
    assert "Nothing runs it" not in text
    assert all(f"k{number}" in text for number in range(9))
    assert len(text.splitlines()) < 9
    assert "Nothing runs it" in plain(analyze_text(AnalyzeResult(quiet[:2])))
