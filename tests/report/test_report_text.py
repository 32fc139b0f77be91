"""Text for people, compared with golden files. `UPDATE_GOLDEN=1 pytest tests/report` rewrites them: read the diff."""

import dataclasses
import os
import re
from pathlib import Path

import pytest
import report_samples as samples

from tritonforge.domain.results import AnalyzeResult, DoctorResult
from tritonforge.domain.trace import Trace, TracedLaunchOf, TracedProcess
from tritonforge.report.text import WIDTH, Line, Span, bar, line, plain, table, to_ascii, wrap
from tritonforge.report.text_analyze import analyze_text
from tritonforge.report.text_doctor import doctor_text
from tritonforge.report.text_optimize import diff_text, optimize_text
from tritonforge.report.text_profile import profile_text
from tritonforge.report.text_program import program_text
from tritonforge.report.text_trace import trace_text
from tritonforge.report.text_verify import verify_text
from tritonforge.report.verdict_inputs import inputs_text
from tritonforge.verify.values import IN_WORDS

GOLDEN = Path(__file__).parent.parent / "golden" / "report"
SOURCES = {samples.FILE: samples.SOURCE}

REPORTS = {
    "analyze": lambda: analyze_text(samples.ANALYZE),
    "analyze_nothing": lambda: analyze_text(AnalyzeResult()),
    "profile": lambda: profile_text(samples.PROFILE, SOURCES),
    "profile_without_source": lambda: profile_text(samples.PROFILE),
    "optimize": lambda: optimize_text([samples.OPTIMIZED, samples.AT_ROOF], SOURCES),
    "optimize_applied": lambda: optimize_text([samples.OPTIMIZED], SOURCES, applied=True),
    "verify_accepted": lambda: verify_text(samples.VERIFIED),
    "verify_refused": lambda: verify_text(samples.NOT_VERIFIED),
    "doctor": lambda: doctor_text(samples.DOCTOR),
    "doctor_fine": lambda: doctor_text(DoctorResult(samples.LAB, samples.DOCTOR.checks[:2])),
}


@pytest.mark.parametrize("name", REPORTS)
def test_report_reads_as_its_golden_file(name):
    golden(name, plain(REPORTS[name]()))


def golden(name, text):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_but_those_that_are_to_be_copied_is_wider_than_the_page(name):
    in_diff = set(samples.DIFF.splitlines())
    wide = [one.text for one in REPORTS[name]() if len(one.text) > WIDTH and one.text not in in_diff]
    assert [text for text in wide if "tritonforge verify" not in text] == []


ON_A_TERMINAL = {
    "analyze": lambda width: analyze_text(samples.ANALYZE, width=width),
    "profile": lambda width: profile_text(samples.PROFILE, SOURCES, width=width),
    "every_profile": lambda width: profile_text(samples.PROFILE, SOURCES, width=width, every=True),
    "program": lambda width: program_text(samples.PROGRAM, width=width),
    "optimize": lambda width: optimize_text([samples.OPTIMIZED, samples.AT_ROOF], SOURCES, width=width),
    "verify_accepted": lambda width: verify_text(samples.VERIFIED, width=width),
    "every_input": lambda width: verify_text(samples.VERIFIED, width=width, every=True),
    "verify_refused": lambda width: verify_text(samples.NOT_VERIFIED, width=width),
    "doctor": lambda width: doctor_text(samples.DOCTOR, width=width),
}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ON_A_TERMINAL)
def test_on_a_terminal_no_line_but_those_that_are_to_be_copied_is_wider_than_it(name, width):
    in_diff = set(samples.DIFF.splitlines())
    lines = [one.text for one in ON_A_TERMINAL[name](width) if one.text not in in_diff]
    assert [text for text in lines if len(text) > width and "tritonforge " not in text] == []


@pytest.mark.parametrize("name", ["profile", "optimize", "verify_accepted"])
def test_a_narrow_report_reads_as_its_golden_file(name):
    golden(f"{name}_60", plain(ON_A_TERMINAL[name](60)))


def test_why_a_version_was_dropped_goes_below_it_where_one_line_is_too_short():
    text = plain(REPORTS["optimize"]())
    assert "BLOCK_M=16, grid follows: slower" in text
    assert re.search(r"BLOCK_M=512, grid follows\n +does not compile: out of resource: shared memory, Required", text)


def test_that_a_version_is_slower_than_the_best_is_said_by_the_columns_alone():
    result = dataclasses.replace(
        samples.OPTIMIZED,
        trials=tuple(
            dataclasses.replace(one, reason="not faster than the best") if one.reason == "slower" else one
            for one in samples.OPTIMIZED.trials
        ),
    )
    assert "not faster" not in plain(optimize_text([result], SOURCES))


def test_of_several_launches_the_one_that_matters_most_has_the_screen_and_each_other_a_line():
    light, heavy = samples.PROFILE.profiles[1], samples.PROFILE.profiles[0]
    shown = plain(profile_text(dataclasses.replace(samples.PROFILE, profiles=(light, heavy)), SOURCES))
    assert shown.count("Bottleneck") == 1
    assert shown.index(heavy.launch.id) < shown.index("1 other launch\n") < shown.index(light.launch.id)
    assert "--verbose shows each of them in full" in shown
    every = plain(profile_text(samples.PROFILE, SOURCES, every=True))
    assert every.count("Bottleneck") == 2
    assert "other launch" not in every


def test_of_a_verdict_each_kind_of_input_is_counted_and_skips_are_grouped_by_reason():
    shown = plain(verify_text(samples.VERIFIED))
    assert "\n3 inputs, 2 skipped\n" in shown
    assert "  2 kinds of values: sorted, ascending; large maxima\n" in shown
    assert "skipped: the original fails (one row expanded to all)\n" in shown
    assert "seed 7" not in shown
    every = plain(verify_text(samples.VERIFIED, every=True))
    assert all(" ".join(one.split()) in " ".join(every.split()) for one in samples.VERIFIED.verdict.inputs)


def test_of_a_refusal_the_input_that_differs_is_in_full():
    assert "matmul(float16[96×96], …): different (off the tile)\n" in plain(verify_text(samples.NOT_VERIFIED))


@pytest.mark.parametrize("about", [
    ("kinds of values", IN_WORDS["subnormal"]), ("kinds of values", "another family of values in each row"),
    ("NaN and infinities", IN_WORDS["all-inf"]), ("sizes", "more programs than recorded, with a tail"),
    ("layouts in memory", "gaps between rows, others in each argument"), ("empty tensors", "empty: size 1 of 2 is 0"),
    ("other types", "float16 instead of float32"), ("other arguments", "argument scale = 0.0"),
])  # fmt: skip
def test_what_is_special_about_an_input_has_a_kind(about):
    kind, words = about
    _, lines = inputs_text([f"f(x=fp32[8], y={{1: (2)}}), seed 1: equal ({words})"], width=98)
    assert lines[0].text == f"1 {kind}: {words}"


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_can_be_shown_in_ascii(name):
    shown = plain(to_ascii(REPORTS[name]()))
    assert shown.isascii()
    assert "?" not in shown


def test_a_diff_is_shown_as_it_is_each_line_in_its_style():
    diff = "--- a/k.py\n+++ b/k.py\n@@ -1,3 +1,3 @@\n same\n--- gone\n+++ come\n \n--- a/l.py\n+++ b/l.py\n@@ -1 +0,0 @@\n-x\n"
    shown = diff_text(diff)
    assert plain(shown) == diff
    styles = " ".join(one.spans[0].style for one in shown)
    assert styles == "hunk hunk hunk plain remove add plain hunk hunk hunk remove"


def test_the_diff_of_a_report_can_be_copied_out_of_it_and_applied():
    text = plain(REPORTS["optimize"]())
    assert samples.DIFF in text


def test_wrapping_keeps_styles_and_words_together():
    lines = wrap([Span("one two", "title"), " three", Span("four", "bad"), " five"], width=9, hanging=2)
    assert [one.text for one in lines] == ["one two", "  threefour", "  five"]
    assert lines[1].spans == (Span("  three"), Span("four", "bad"))
    assert wrap([""]) == []


def test_a_table_aligns_its_columns_and_leaves_no_blanks_at_the_end():
    rows = table([("a", "10", "x"), ("bcd", "9", Span("", "bad"))], right=(1,))
    assert [one.text for one in rows] == ["a    10  x", "bcd   9"]


def test_a_bar_is_as_long_as_its_fraction():
    assert bar(0, 4) == "░░░░"
    assert bar(1, 4) == "████"
    assert bar(0.5, 4) == "██░░"
    assert bar(7, 4) == "████"
    assert len(bar(0.33, 10)) == 10


def test_an_empty_line_stays_empty_when_indented():
    assert Line().indented(4) == Line()
    assert line("a", "").indented(2).text == "  a"


def test_the_summary_of_a_trace_fits_the_screen():
    launches = tuple(TracedLaunchOf(samples.KERNEL, samples.launch("3f2a1b", 4096, count=123_456)) for _ in range(40))
    processes = tuple(TracedProcess(pid, ("python",), "pretended") for pid in range(8))
    lines = trace_text(Trace(("python",), launches, processes=processes, python=8), "trace.json")
    assert max(len(one.text) for one in lines) <= WIDTH
    words = " ".join(plain(lines).split())
    assert "in 8 processes (no GPU here: launches were recorded, kernels did not run)." in words


def test_a_spec_to_copy_has_a_line_of_its_own_however_narrow_the_terminal():
    spec = "# tritonforge: launch x=fp16[M, N] weight=fp16[N] bias=fp16[N] M=4096 N=4096"
    known = dataclasses.replace(samples.ANALYZE.kernels[0], launches=(), assessments=(), launch_note="write: " + spec)
    assert f"\n    {spec}\n" in plain(analyze_text(AnalyzeResult((known,)), width=40))


def test_a_long_reason_of_a_check_goes_on_below_itself():
    checks = {"results": "failed: " + "the result differs " * 12, "coverage": "skipped: refused before"}
    verdict = dataclasses.replace(samples.NOT_VERIFIED.verdict, checks=checks)
    shown = plain(verify_text(dataclasses.replace(samples.NOT_VERIFIED, verdict=verdict)))
    assert shown.count("the result differs") + shown.count("the result\n") + shown.count("the\n") >= 12
    assert max(len(one) for one in shown.splitlines() if "tritonforge verify" not in one) <= WIDTH
