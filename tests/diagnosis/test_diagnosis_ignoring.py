"""Ignoring on purpose: by comment, by file, with a day on which it ends, and what is said about it."""

from __future__ import annotations

import datetime as dt
import json
import lzma
from pathlib import Path

import jsonschema
import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.diagnosis.diagnose import diagnose_all, lapsed
from tritonforge.diagnosis.inspect_file import inspect_source
from tritonforge.domain.errors import UsageError
from tritonforge.domain.results import AnalyzeResult
from tritonforge.report.github import analyze_summary
from tritonforge.report.json_analyze import analyze_json
from tritonforge.report.sarif import analyze_sarif
from tritonforge.report.text import plain
from tritonforge.report.text_analyze import analyze_text

SARIF = json.loads(
    lzma.decompress((Path(__file__).parent.parent / "data" / "sarif" / "sarif-2.1.0-rtm.5.json.xz").read_bytes())
)
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + i, mask=i < n)){comment}
    tl.atomic_add(o_ptr, total)
"""


def kernel(comment=""):
    (found,) = analyze(SOURCE.format(comment=comment), "k.py").kernels
    return found


def day(text):
    return dt.date.fromisoformat(text)


@pytest.fixture(scope="module")
def code():
    """A code that the source alone shows of the kernel's last line."""
    shown, _ = diagnose_all(kernel())
    return next(finding.code for finding in shown if finding.range.start.line == 8)


def codes(found):
    return {finding.code for finding in found if finding.range.start.line == 8}


def test_a_comment_with_a_day_ignores_up_to_that_day_and_no_longer(code):
    one = kernel(f"  # tritonforge: ignore[{code}] until 2027-03-01")
    shown, ignored = diagnose_all(one, today=day("2027-03-01"))
    assert code not in codes(shown)
    assert [(i.finding.code, i.by, i.where, i.until) for i in ignored] == [(code, "comment", "k.py:8", "2027-03-01")]
    shown, ignored = diagnose_all(one, today=day("2027-03-02"))
    assert code in codes(shown)
    assert ignored == ()


@pytest.mark.parametrize(("until", "because"), [("2020-01-01", "has passed"), ("soon", "no day"), ("", "no day")])
def test_a_comment_whose_day_has_passed_or_is_none_is_told_and_ignores_nothing(code, until, because):
    one = kernel(f"  # tritonforge: ignore[{code}] until {until}")
    (ended,) = lapsed(one, day("2026-11-30"))
    assert (ended.what, ended.where) == (code, "k.py:8")
    assert because in ended.reason
    assert code in codes(diagnose_all(one)[0])


def test_a_comment_without_a_day_ignores_for_ever_and_words_after_it_are_no_day(code):
    one = kernel(f"  # tritonforge: ignore[{code}] the mask is not needed")
    assert code not in codes(diagnose_all(one, today=day("2100-01-01"))[0])
    assert lapsed(one) == ()


def settings(folder, text):
    (folder / "tritonforge.toml").write_text(text)
    return load(folder, environment={})


def test_settings_ignore_up_to_a_day_too(tmp_path, code):
    found = settings(
        tmp_path,
        f'ignore = ["TF404 until 2999-01-01", "TF405 until 2020-01-01"]\n[per-file-ignores]\n"k*" = ["{code} until 2998-01-01"]\n',
    )
    assert found.ignore == ("TF404",)
    assert not found.selects(code, "k.py")
    assert found.selects(code, "other.py")
    assert found.silences(code, "k.py") == ("per-file", "tritonforge.toml: per-file-ignores 'k*'", "2998-01-01")
    assert found.silences("TF404", "other.py") == ("setting", "tritonforge.toml: ignore 'TF404'", "2999-01-01")
    assert found.silences(code, "other.py") is None
    assert [(one.what, one.until) for one in found.lapsed()] == [("TF405", "2020-01-01")]


@pytest.mark.parametrize("entry", ["TF404 until tomorrow", "TF404 2027-01-01"])
def test_a_wrong_day_in_the_settings_is_one_sentence_with_its_line(tmp_path, entry):
    with pytest.raises(UsageError, match=r"tritonforge\.toml:1: .*until 2027-03-01"):
        settings(tmp_path, f'ignore = ["{entry}"]\n')


def test_a_wrong_code_with_a_day_is_told_with_the_nearest_that_there_is(tmp_path):
    with pytest.raises(UsageError, match=r"tritonforge\.toml:1: .*'T404' is no rule's code. Did you mean TF404\?"):
        settings(tmp_path, 'ignore = ["T404 until 2027-01-01"]\n')


@pytest.fixture
def judged(tmp_path, code):
    """A kernel of which one finding is ignored by a comment, all TF4 by the settings, and one silence has ended."""
    chosen = settings(tmp_path, 'ignore = ["TF4", "TF203 until 2020-01-01"]\n')
    text = SOURCE.format(comment=f"  # tritonforge: ignore[{code}]")
    analysis = analyze(text, "k.py")
    return AnalyzeResult(inspect_source(analysis, analysis.kernels, chosen, note="source only"), lapsed=chosen.lapsed())


def test_reports_say_what_is_ignored_and_what_has_ended(judged, code):
    (one,) = judged.kernels
    assert {(i.finding.code, i.by) for i in one.ignored} >= {(code, "comment")}
    text = plain(analyze_text(judged, width=200))
    assert "ignored on purpose: 1 by comments" in text
    assert "--show-ignored lists them" in text
    assert (
        "tritonforge.toml: ignore TF203 is no longer ignored: it was until 2020-01-01, and that day has passed." in text
    )
    listed = plain(analyze_text(judged, show_ignored=True))
    assert f"k.py:8 {code} " in listed
    assert "(k.py:8)" in listed
    assert "ignored on purpose</summary>" in analyze_summary(judged)
    assert "TF203 is no longer ignored" in analyze_summary(judged)
    (kernel_json,) = analyze_json(judged)["kernels"]
    assert {"code": code, "line": 8, "by": "comment", "where": "k.py:8", "until": None} in kernel_json["ignored"]


def test_sarif_keeps_what_is_ignored_as_suppressed_under_the_same_fingerprint(judged, code):
    log = analyze_sarif(judged, root="file:///w", version="1")
    jsonschema.Draft4Validator(SARIF).validate(log)
    (mine,) = [
        r
        for r in log["runs"][0]["results"]
        if r["ruleId"] == code and r["locations"][0]["physicalLocation"]["region"]["startLine"] == 8
    ]
    assert mine["suppressions"] == [{"kind": "inSource", "justification": "k.py:8"}]
    analysis = analyze(SOURCE.format(comment=""), "k.py")
    open_again = AnalyzeResult(
        inspect_source(analysis, analysis.kernels, load(Path("/nowhere"), environment={}), note="")
    )
    again = analyze_sarif(open_again, root="file:///w", version="1")["runs"][0]["results"]
    assert mine["partialFingerprints"] in [one["partialFingerprints"] for one in again if "suppressions" not in one]


@pytest.mark.parametrize(
    ("comment", "codes", "until"),
    [
        ("ignore[TF203", ("TF203",), None),  # never closed: not everything
        ("ignore[TF203 until 2027-03-01", ("TF203",), "2027-03-01"),
        ("ignore TF203, tf4", ("TF203", "TF4"), None),
        ("ignore: TF203 because it is so", ("TF203",), None),
        ("ignore[TF203 TF404] UNTIL: 2027-03-01, see the issue", ("TF203", "TF404"), "2027-03-01"),
        ("ignore[TF203] (until 2027-03-01)", ("TF203",), None),
        ("ignore[Tile-Too-Small]", ("tile-too-small",), None),
        ("ignore until 2027-03-01.", (), "2027-03-01"),
        ("ignore because it is so", (), None),
    ],
)
def test_a_slip_of_the_pen_does_not_silence_everything(comment, codes, until):
    (one,) = kernel(f"  # tritonforge: {comment}").suppressions
    assert (one.codes, one.until) == (codes, until)


@pytest.mark.parametrize("comment", ["ignore[]", "ignore[ , ]", "ignored[TF203]"])
def test_brackets_without_a_code_silence_nothing(comment):
    assert kernel(f"  # tritonforge: {comment}").suppressions == ()


def test_a_rule_may_be_ignored_by_its_name(code):
    name = next(finding.name for finding in diagnose_all(kernel())[0] if finding.code == code)
    shown, ignored = diagnose_all(kernel(f"  # tritonforge: ignore[{name}]"))
    assert code not in codes(shown)
    assert [one.finding.code for one in ignored] == [code]
