"""The heat column: a kernel's source beside where its time goes."""

from __future__ import annotations

import dataclasses
import textwrap

import report_samples as samples

from tritonforge.analysis import analyze
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.profile import LineHeat
from tritonforge.domain.results import ProfileResult
from tritonforge.report import wording
from tritonforge.report.json_profile import profile_json
from tritonforge.report.text import plain, to_ascii
from tritonforge.report.text_profile import profile_text
from tritonforge.report.text_source import dominant_stall, source_with_heat

HEADER = "import triton\nimport triton.language as tl\n\n\n"


def kernel_of(body: str):
    source = HEADER + textwrap.dedent(body).lstrip("\n")
    return analyze(source, "k.py").kernels[0], source


LONG = "@triton.jit\ndef long(x, o, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n" + "".join(
    f"    a{k} = i + {k}\n" for k in range(60)
)
LONG += "    for j in range(0, n, B):\n        v = tl.load(x + i + j)\n        tl.store(o + i + j, v)\n"
LONG += "".join(f"    b{k} = i + {k}\n" for k in range(60))


def test_a_short_kernel_is_shown_whole_but_for_blank_lines_docstring_and_a_long_signature():
    kernel, source = kernel_of('''
        @triton.jit
        def k(
            x,  # a comment: with a colon
            o=(1, 2),
            B: tl.constexpr = 4,
        ):
            """What it does.

            In many lines.
            """

            i = tl.arange(0, B)

            tl.store(o + i, tl.load(x + i))
        ''')
    text = plain(source_with_heat(kernel, source, {}))
    assert "def k(…" in text
    assert "What it does" not in text
    assert "comment" not in text
    assert [part.split("│")[1].strip() for part in text.splitlines()] == [
        "def k(…",
        "i = tl.arange(0, B)",
        "tl.store(o + i, tl.load(x + i))",
    ]


def test_a_long_kernel_shows_its_hot_lines_the_loop_around_them_and_says_where_lines_are_left_out():
    kernel, source = kernel_of(LONG)
    load = next(i for i, t in enumerate(source.splitlines(), 1) if "tl.load" in t)
    lines = source_with_heat(kernel, source, {load: LineHeat(0.9, {"long_scoreboard": 0.8, "selected": 0.2})}, rows=8)
    text = plain(lines)
    assert "90 %" in text
    assert "for j in range" in text
    assert "long scoreboard" in text
    assert text.count("⋮") == 1
    assert len([t for t in text.splitlines() if "│" in t]) == 8


def test_a_line_that_a_finding_points_at_is_kept_however_cold():
    kernel, source = kernel_of(LONG)
    cold = next(i for i, t in enumerate(source.splitlines(), 1) if "b55" in t)
    load = next(i for i, t in enumerate(source.splitlines(), 1) if "tl.load" in t)
    assert "b55" in plain(source_with_heat(kernel, source, {load: LineHeat(1.0)}, marked=[cold], rows=5))


def test_no_row_is_wider_than_the_page_whatever_the_source():
    wide = "@triton.jit\ndef k(x, o):\n\tv = tl.load(x)  # " + "ä×" * 90 + "\n\ttl.store(o, v)\n"
    kernel, source = kernel_of(wide)
    load = next(i for i, t in enumerate(source.splitlines(), 1) if "tl.load" in t)
    for heat in ({}, {load: LineHeat(0.5)}, {load: LineHeat(0.5, {"a_reason_that_is_very_long_indeed": 1.0})}):
        lines = source_with_heat(kernel, source, heat)
        assert max(len(one.text) for one in lines) <= 98
        assert plain(to_ascii(lines)).isascii()


def test_a_file_that_was_cut_since_and_heat_outside_the_kernel_do_no_harm():
    kernel, source = kernel_of(LONG)
    assert source_with_heat(kernel, "", {7: LineHeat(1.0)}) == []
    cut = "\n".join(source.splitlines()[:12])
    assert source_with_heat(kernel, cut, {9999: LineHeat(float("nan")), -1: LineHeat(1.0)})


def test_a_warp_that_issues_has_no_reason_to_wait():
    assert dominant_stall(LineHeat(1.0, {"selected": 0.7, "long_scoreboard": 0.2, "wait": 0.1})) == (
        "long scoreboard",
        0.2,
    )
    assert dominant_stall(LineHeat(1.0, {"selected": 1.0})) is None
    assert dominant_stall(LineHeat(1.0)) is None


def profiled(**changes) -> str:
    profile = dataclasses.replace(samples.MEASURED_PROFILE, **changes)
    return plain(profile_text(ProfileResult((profile,), {}), {samples.FILE: samples.SOURCE}))


def test_the_heading_says_whether_the_shares_are_samples_or_a_models():
    assert "Where the time goes  share of stall samples (pcsampling)" in profiled()
    assert "Where the time goes  predicted from the compiled code, not measured" in profiled(
        lines_provenance="predicted"
    )
    bare = profiled(lines={})
    assert "Source\n" in bare
    assert "Where the time goes" not in bare


def test_predicted_shares_do_not_enter_the_json_where_samples_belong():
    measured = profile_json(ProfileResult((samples.MEASURED_PROFILE,), {}))["profiles"][0]
    assert set(measured["lines"]) == {"11", "12", "13", "14", "999"}
    guessed = dataclasses.replace(samples.MEASURED_PROFILE, lines_provenance="predicted")
    assert profile_json(ProfileResult((guessed,), {}))["profiles"][0]["lines"] == {}


def test_stall_reasons_are_explained_and_unknown_ones_kept():
    assert "62 % long scoreboard (waiting for global or local memory)" in profiled()
    assert wording.stall("a_new_one") == "a new one"


def test_a_launch_bound_kernel_is_not_sent_to_the_optimiser():
    text = profiled(bottleneck=Bottleneck("launch-bound", 0.9, "measured", "Short."))
    assert "tritonforge optimize" not in text
    assert "CUDA graph" in text


def test_a_normal_profile_fits_one_screen():
    assert len(profiled().splitlines()) <= 45
    assert max(map(len, profiled().splitlines())) <= 100


def test_the_second_launch_of_a_kernel_shows_only_what_is_hot():
    kernel, source = kernel_of(LONG)
    profile = dataclasses.replace(samples.MEASURED_PROFILE, kernel=kernel, lines={}, findings=())
    once = plain(profile_text(ProfileResult((profile,), {}), {"k.py": source}))
    twice = plain(profile_text(ProfileResult((profile, profile), {}), {"k.py": source}, every=True))
    assert once.count("│") == 24
    assert twice.count("│") == 34
