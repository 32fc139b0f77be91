"""`check` in every format: held to its schemas, to JUnit, to the syntax of workflow commands, and to stable fingerprints."""

from __future__ import annotations

import dataclasses
import json
import lzma
import re
from pathlib import Path

import jsonschema
import pytest
import report_samples as samples
from junitparser import JUnitXml

from tritonforge.cli.code_host import append_summary
from tritonforge.cli.rendering import styled
from tritonforge.domain.baseline import CheckResult, Comparison
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.report.github_check import check_commands, check_summary
from tritonforge.report.json_check import check_json
from tritonforge.report.junit_check import check_junit
from tritonforge.report.sarif_check import check_sarif
from tritonforge.report.text import plain
from tritonforge.report.text_check import check_text

ROOT = Path(__file__).parents[2]
SARIF = json.loads(lzma.decompress((ROOT / "tests" / "data" / "sarif" / "sarif-2.1.0-rtm.5.json.xz").read_bytes()))
SCHEMA = json.loads((ROOT / "docs" / "json" / "check.schema.json").read_text())
NASTY = 'a <b>|c & "d"\n::error::100%, e:f \x00\x1b'

SLOWER = Comparison(
    "kernels/matmul.py", "matmul_kernel", 12, 40, "abc", "p1", "a float16[4096×4096]", "regressed", "sm_90", "NVIDIA H200",
    1.052, (1.041, 1.063), 1.016, "measured", 110.0, 115.72, {"config.BLOCK_M": (128, 64), "registers": (64, 96), "site_hash": ("a", "b")},
    ("1.052x the time of the recorded version, measured side by side",), ("verified: as the recorded version on 9 inputs",),
)  # fmt: skip


def one(status, **fields):
    return dataclasses.replace(SLOWER, **{"status": status, "reasons": (), "changes": {}, "notes": (), **fields})


ALL = CheckResult(
    "measured",
    (
        SLOWER,
        one("ok", problem="p2", ratio=1.001),
        one("improved", problem="p3", ratio=0.9),
        one("new", problem="p4", ratio=None, ratio_ci95=None, before_us=None),
        one(
            "missing",
            problem="p5",
            ratio=None,
            ratio_ci95=None,
            after_us=None,
            reasons=("nothing launches it any more",),
        ),
        one("error", problem="p6", kernel=NASTY, reasons=(NASTY,), ratio=float("inf"), ratio_ci95=(float("nan"), 2.0)),
        one("error", problem="p7", doubtful=True, reasons=("but that says nothing: it is the machine",)),
    ),
    samples.OFFLINE,
    ".tritonforge/baseline.json",
    ("sm_90",),
    ("a note about all of it",),
    (Ignored(samples.TILE, "comment", "kernels/matmul.py:12", "2027-03-01"),),
    (Lapsed("TF203", "kernels/a.py:3", "2026-01-01", "that day has passed"),),
)
COMPILED = dataclasses.replace(
    ALL, compared="compiled", comparisons=(one("ok", gpu=None, provenance="predicted", ratio=1.0, ratio_ci95=None),)
)


@pytest.mark.parametrize("result", [ALL, COMPILED, CheckResult("compiled"), dataclasses.replace(ALL, updated=("+ k",))])
def test_json_keeps_to_its_schema(result):
    data = json.loads(json.dumps(check_json(result), allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert data["compared"] == result.compared


def test_json_says_what_the_design_promises():
    first = check_json(ALL)["results"][0]
    assert first["kernel"] == {
        "file": "kernels/matmul.py",
        "name": "matmul_kernel",
        "line": 12,
        "end_line": 40,
        "code_hash": "abc",
    }
    assert first["problem"] == "a float16[4096×4096]"
    assert (first["status"], first["ratio"], first["ratio_ci95"]) == ("regressed", 1.052, [1.041, 1.063])
    assert first["changes"]["config.BLOCK_M"] == [128, 64]
    assert check_json(ALL)["results"][5]["ratio"] is None


def sarif(result=ALL, **options):
    log = check_sarif(result, **{"root": "file:///w/repo", "version": "1.2.3", **options})
    jsonschema.Draft4Validator(SARIF).validate(json.loads(json.dumps(log, allow_nan=False)))
    return log["runs"][0]


@pytest.mark.parametrize("result", [ALL, COMPILED, CheckResult("compiled")])
def test_sarif_is_valid(result):
    sarif(result)


def test_sarif_paths_are_relative_to_the_repository():
    run = sarif(prefix="sub dir/")
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "sub%20dir/kernels/matmul.py", "uriBaseId": "SRCROOT"}
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == "file:///w/repo/"


def test_sarif_fingerprints_stay_when_code_moves_and_numbers_change_and_differ_between_problems():
    moved = dataclasses.replace(
        ALL, comparisons=tuple(dataclasses.replace(c, line=c.line + 9, ratio=1.2) for c in ALL.comparisons)
    )
    before, after = ([r["partialFingerprints"] for r in sarif(result)["results"]] for result in (ALL, moved))
    assert before == after
    assert len({json.dumps(one) for one in before}) == len(before) == 4


def test_sarif_levels_say_how_grave_it_is():
    assert [(r["ruleId"], r["level"]) for r in sarif()["results"]] == [
        ("TF-CHECK-regressed", "error"),
        ("TF-CHECK-missing", "note"),
        ("TF-CHECK-error", "warning"),
        ("TF-CHECK-error", "note"),
    ]


def test_junit_has_a_case_for_each_kernel_and_problem():
    report = JUnitXml.fromstring(check_junit(ALL).encode())
    (suite,) = report
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 1, 1, 3)
    first = next(iter(suite))
    assert first.classname == "kernels.matmul"
    assert first.name == "matmul_kernel [a float16[4096×4096]] on NVIDIA H200"
    assert first.time == pytest.approx(115.72e-6)
    assert "1.052x" in first.result[0].message
    assert "config.BLOCK_M 128 → 64" in first.result[0].text
    assert {p.name: p.value for p in suite.properties()}["compared"] == "measured"


def test_workflow_commands_are_one_line_each_and_regressions_come_first():
    commands = list(check_commands(ALL, "sub/"))
    assert commands[0].startswith(
        "::error file=sub/kernels/matmul.py,line=12,title=Performance regression::matmul_kernel ["
    )
    assert all("\n" not in command for command in commands)
    assert sum(command.startswith("::error") for command in commands) == 2
    assert any(c.startswith("::warning") and "it is the machine" in c for c in commands)
    assert any("TF203 was ignored until 2026-01-01" in c for c in commands)
    assert "%25" in next(c for c in commands if "100" in c)


def test_the_summary_has_before_and_after_and_nothing_breaks_its_table():
    text = check_summary(ALL)
    rows = [row for row in text.splitlines() if row.startswith("| ")]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    (row,) = [row for row in rows if "❌" in row]
    assert "| 110 µs | 116 µs | 1.052x, 95 %: 1.041–1.063 |" in row
    assert "`config.BLOCK_M 128 → 64`" in row
    assert "<b>" not in text
    assert "1 finding ignored on purpose" in text


HOSTILE = "a\\|b`<img src=x>[here](http://evil.example) | x\n::error::pwned \x1b[31m\x00\udcff"


def hostile():
    """Every text that comes from a kernel, a file's name, a compiler or a baseline, as an enemy would have it."""
    one = dataclasses.replace(
        ALL.comparisons[0],
        file=f"{HOSTILE}.py", kernel=HOSTILE, describes=HOSTILE, gpu=HOSTILE, arch=HOSTILE,
        reasons=(HOSTILE, f"`{HOSTILE}"), notes=(HOSTILE,), changes={HOSTILE: (HOSTILE, 1)},
    )  # fmt: skip
    ended = dataclasses.replace(ALL.lapsed[0], what=HOSTILE, until=HOSTILE, where=HOSTILE)
    return dataclasses.replace(
        ALL, comparisons=(one,), lapsed=(ended,), notes=(HOSTILE,), baseline=HOSTILE, archs=(HOSTILE,)
    )


def test_an_enemys_names_are_text_in_every_report():
    result = hostile()
    summary = check_summary(result)
    (row,) = [row for row in summary.splitlines() if "❌" in row]
    # Pipes between cells: an escape before a pipe counts only where it is not escaped itself.
    assert re.sub(r"\\.", "", row).count("|") == 8
    bare = re.sub(r"\\.", "", re.sub(r"(?<!\\)`[^`]*`", "", summary))
    assert "<img" not in summary
    assert "[here](" not in bare
    assert all(not command.strip().startswith("::error::pwned") for command in check_commands(result))
    assert all("\n" not in command for command in check_commands(result))
    (suite,) = JUnitXml.fromstring(check_junit(result).encode())
    assert "::error::pwned" in next(iter(suite)).name
    uri = sarif(result)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii()
    assert uri.endswith("%FF.py")
    shown = "\n".join(one.plain for one in styled(check_text(result), "utf-8"))
    assert not [line for line in shown.splitlines() if line.strip().startswith("::error")]
    assert shown.replace("\n", "").isprintable()


def test_a_summary_with_a_name_that_is_no_text_is_written(tmp_path, monkeypatch):
    place = tmp_path / "a b\nc.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
    append_summary(check_summary(hostile()))
    assert "\\udcff" in place.read_text("utf-8")


def test_a_note_about_a_file_keeps_the_files_name():
    result = dataclasses.replace(ALL, notes=("matmul.py::kernel is not checked: why", "the GPU is busy"))
    text = plain(check_text(result))
    assert "\nmatmul.py::kernel is not checked: why.\n" in text
    assert "\nThe GPU is busy.\n" in text


@pytest.mark.parametrize("width", [60, 100])
def test_text_says_all_of_it_within_its_width(width):
    lines = check_text(ALL, width=width, show_ignored=True)
    text = " ".join(plain(lines).split())
    for said in ("110 µs → 116 µs (1.052x, 95 %: 1.041–1.063)", "config.BLOCK_M 128 → 64", "its host code", "A note about all of it.",
                 "7 checks against .tritonforge/baseline.json: 1 regressed, 2 error, 1 improved, 1 new, 1 missing, 1 ok.",
                 "--update", "until 2027-03-01", "TF203 is no longer ignored"):  # fmt: skip
        assert said in text


@pytest.mark.parametrize(
    "shown", [plain(check_text(COMPILED)), check_summary(COMPILED), "\n".join(check_commands(COMPILED))]
)
def test_without_a_gpu_every_report_says_that_nothing_was_measured(shown):
    assert "Nothing was measured" in " ".join(shown.split())


def test_what_fails_a_check():
    assert [c.problem for c in ALL.failing()] == ["p1", "p6"]
    assert [c.problem for c in ALL.failing(strict=True)] == ["p1", "p4", "p5", "p6", "p7"]
