"""The kernel report: what is put together, and a page that is whole, safe, the same each time, and says what it shows.

`UPDATE_GOLDEN=1 pytest tests/report` rewrites the golden file: read the diff.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
import report_samples as samples

from tritonforge.domain.kernel_report import KernelReport, Listing
from tritonforge.domain.profile import Roofline
from tritonforge.domain.results import ProfileResult
from tritonforge.report.html_report import report_html
from tritonforge.report.kernel_report import of_profiles, of_search, with_listings, with_search

GOLDEN = Path(__file__).parent.parent / "golden" / "report" / "kernel_report.html"
SOURCES = {samples.FILE: samples.SOURCE}
PLACE = Roofline(1.0e8, 1.37e11, 64.0, 87.7, 4300.0, 718.0, 0.122, "compute")
TTIR = Listing("ttir", ("module {", "  %acc = tt.dot %a, %b", "}"), ((7,), (13,), (7,)))
SASS = Listing(
    "sass", ("0000  LDG.E R2, [R4]", "0010  HMMA R4, R2, R8", "0020  EXIT"), ((11,), (13, 10), ()), {1: 0.45}
)
TIMED = tuple(replace(trial, at_s=float(2 * n)) for n, trial in enumerate(samples.TRIALS, 1))
SEARCHED = replace(
    samples.OPTIMIZED,
    trials=TIMED,
    best=replace(samples.OPTIMIZED.best, trial=TIMED[2]),
    rooflines={"3f2a1b": PLACE},
)


def searched() -> KernelReport:
    return with_listings(of_search(SEARCHED, samples.SOURCE), {"3f2a1b": (TTIR, SASS)}, "Not read.")


def profiled() -> KernelReport:
    (report,) = of_profiles(samples.PROFILE, SOURCES)
    return with_listings(report, {"3f2a1b": (TTIR, SASS)}, "Not read.")


def page(*reports: KernelReport, **more) -> str:
    return report_html(reports, version="1.2.3", **more)


VOID = {"meta", "br", "hr", "img", "input", "link"}
SVG_VOID = {"line", "path", "circle", "rect"}


class Parsed(HTMLParser):
    """A page as elements: complains where they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[int, str] = {}
        self.open: list[int] = []
        self.feed(text)
        self.close()
        assert self.open == [], "something was never closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag, attrs):
        assert tag in SVG_VOID
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.elements[self.open[-1]][0] == tag, f"</{tag}> closes {self.elements[self.open[-1]]}"
        self.open.pop()

    def handle_data(self, data):
        for at in self.open:
            self.texts[at] = self.texts.get(at, "") + data

    def all(self, tag=None, **attributes):
        """Return (attributes, text) of the elements of that tag that have these attributes."""
        return [
            (attrs, self.texts.get(at, ""))
            for at, (name, attrs) in enumerate(self.elements)
            if tag in {None, name} and all(attrs.get(k.replace("_", "-")) == v for k, v in attributes.items())
        ]

    def one(self, tag=None, **attributes):
        (found,) = self.all(tag, **attributes)
        return found


PAGES = {
    "a search": lambda: page(searched()),
    "a profile": lambda: page(profiled()),
    "both": lambda: page(with_search(profiled(), SEARCHED)),
    "several kernels": lambda: page(searched(), of_search(samples.AT_ROOF, ""), title="two.ncu-rep"),
    "nothing known": lambda: page(KernelReport(samples.KERNEL, samples.SOURCE, "", next_step="Profile it.")),
    "no kernel at all": lambda: page(title="two.ncu-rep", notes=["No launch in it is of a kernel here."]),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_nests_has_unique_ids_and_points_only_at_what_is_there(name):
    parsed = Parsed(PAGES[name]())
    ids = Counter(attrs["id"] for _, attrs in parsed.elements if "id" in attrs)
    assert [one for one, count in ids.items() if count > 1] == []
    for _, attrs in parsed.elements:
        for attribute in ("aria-labelledby", "aria-controls"):
            assert set(attrs.get(attribute, "").split()) <= ids.keys()
        assert attrs.get("href", "#")[:1] == "#"
        assert attrs.get("href", "#")[1:] in {"", *ids}


@pytest.mark.parametrize("name", PAGES)
def test_nothing_but_the_pages_own_style_and_script_can_run_or_load(name):
    parsed = Parsed(PAGES[name]())
    policy, _ = parsed.one("meta", http_equiv="Content-Security-Policy")
    (_, style), (_, script) = parsed.one("style"), parsed.one("script")

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    assert rules == {
        "default-src": "'none'",
        "style-src": digest(style),
        "script-src": digest(script),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    attributes = {attribute for _, attrs in parsed.elements for attribute in attrs}
    assert [one for one in attributes if one.startswith("on") or one in {"style", "src", "srcdoc", "action"}] == []
    assert not re.search(r"url\(|@import", style)


HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert('2')">&amp;"""


def test_whatever_names_source_and_texts_contain_stays_text():
    kernel = replace(samples.KERNEL, name=HOSTILE, file=f"{HOSTILE}.py")
    finding = replace(samples.TILE, message=HOSTILE, file=kernel.file)
    source = samples.SOURCE.replace("acc += tl.dot(a, b)", f"acc += tl.dot(a, b)  # {HOSTILE}")
    trial = replace(TIMED[2], candidate=replace(TIMED[2].candidate, title=HOSTILE))
    search = replace(
        SEARCHED,
        kernel=kernel,
        findings=(finding,),
        trials=(trial, replace(TIMED[4], reason=HOSTILE)),
        best=replace(SEARCHED.best, trial=trial, diff=f"+{HOSTILE}"),
        stopped_because=HOSTILE,
        notes=(HOSTILE,),
    )
    listing = Listing("ptx", (HOSTILE,), ((13,),))
    report = with_listings(of_search(search, source), {"3f2a1b": (listing,)}, HOSTILE)
    parsed = Parsed(page(report, uri=f'file:///"{HOSTILE}', notes=[HOSTILE]))
    assert len(parsed.all("script")) == 1
    assert parsed.all("img") == []
    assert HOSTILE in parsed.one("h1")[1]
    assert parsed.one("body")[0]["data-uri"] == f'file:///"{HOSTILE}'
    assert any(HOSTILE in text for _, text in parsed.all(role="option"))


def test_the_same_knowledge_gives_the_same_bytes():
    assert PAGES["both"]() == PAGES["both"]()


def test_the_page_reads_as_its_golden_file():
    text = page(searched())
    text = re.sub(r"<style>.*?</style>", "<style></style>", text, flags=re.DOTALL)
    text = re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL)
    text = re.sub(r"'sha256-[^']*'", "'sha256-…'", text)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_every_line_of_the_kernel_is_a_row_and_every_row_of_a_listing_names_lines_that_are():
    parsed = Parsed(page(searched()))
    own = [attrs["data-l"] for attrs, _ in parsed.all(role="option") if attrs.get("id", "").startswith("k0-0-")]
    assert own == [str(n) for n in range(6, 15)]
    named = {line for attrs, _ in parsed.all(role="option") for line in attrs.get("data-l", "").split()}
    assert named <= set(own)
    (row, text) = next(one for one in parsed.all(role="option") if "HMMA" in one[1])
    assert row["data-l"] == "13 10"
    assert text.startswith("45 %"), "the share of samples of the instruction itself"


def test_a_form_feed_above_a_kernel_moves_no_line():
    report = replace(searched(), text=samples.SOURCE.replace("import", "\f\u2028import", 1))
    (row,) = (text for attrs, text in Parsed(page(report)).all(role="option") if attrs.get("id") == "k0-0-7")
    assert row.startswith("7def matmul_kernel(")


def test_heat_stands_at_its_line_with_the_reasons_and_where_it_comes_from():
    parsed = Parsed(page(profiled()))
    row, text = parsed.one(id="k0-0-11")
    assert text.startswith("41 %")
    assert "of the stall samples: long scoreboard" in row["title"]
    pane, _ = parsed.all(role="listbox", data_pane="source")[0]
    assert pane["aria-label"] == "Source of matmul_kernel, with each line's share of stall samples, measured"


def test_each_listing_is_a_panel_of_a_tab():
    parsed = Parsed(page(searched()))
    tabs = parsed.all(role="tab")
    assert [text for _, text in tabs] == ["TTIR", "SASS"]
    for attrs, name in tabs:
        panel, _ = parsed.one(id=attrs["aria-controls"])
        assert (panel["role"], panel["aria-labelledby"]) == ("tabpanel", attrs["id"])
        assert parsed.one(role="listbox", aria_label=name)
    assert any(text == "Not read." for _, text in parsed.all("p", **{"class": "note muted"}))


def card(parsed, name):
    return next(text for _, text in parsed.all("dl") if text.startswith(name))


def test_predicted_figures_say_so_and_measured_ones_have_their_interval():
    predicted, measured = Parsed(page(searched())), Parsed(page(profiled()))
    assert "1.56 ms" in card(predicted, "Time")
    assert "predicted" in card(predicted, "Time")
    assert "measured" not in card(predicted, "Time")
    assert "2.39xpredicted · 1.71x–2.90x" in card(predicted, "Best version")
    assert "measured · 95 % 809–821 µs · 30 samples" in card(measured, "Time")


def test_the_best_version_stands_above_the_original_at_the_same_intensity():
    report = searched()
    first = report.launches[0]
    assert first.after.bytes == first.roofline.bytes
    assert first.after.achieved_tflops == pytest.approx(1.37e11 / 651.2 * 1e-6)
    assert first.after.fraction == pytest.approx(max(1e8 / 4300 * 1e-3, 1.37e11 / 718 * 1e-6) / 651.2)
    text = page(report)
    chart = text[text.index('aria-labelledby="k0-0-roof-t') :]
    (now_x, now_y), (best_x, best_y) = (
        map(float, re.search(pattern, chart).groups())
        for pattern in (r'<circle cx="([\d.]+)" cy="([\d.]+)" r="5"', r'<path d="M([\d.]+) ([\d.]+)L')
    )
    assert now_x == best_x
    assert best_y + 6 < now_y, "higher is further up"
    described = Parsed(text).one("desc", id="k0-0-roof-d")[1]
    assert described.startswith(
        "Bound by arithmetic. now: 12 % of the roofline in 1.56 ms, predicted; best version: 29 %"
    )


def test_a_kernel_without_flops_is_shown_under_the_memory_bandwidth_alone():
    place = Roofline(1e8, 0.0, 2150.0, None, 4300.0, 67.0, 0.5, "memory")
    profile = replace(samples.MEASURED_PROFILE, roofline=place)
    (report,) = of_profiles(ProfileResult((profile,)), SOURCES)
    parsed = Parsed(page(report))
    assert parsed.one("title", id="k0-0-roof-t")[1] == "Share of the memory bandwidth"
    assert len(parsed.all("rect")) == 1


def test_each_trial_with_a_time_is_a_mark_and_every_trial_a_row():
    text = page(searched())
    chart = text[text.index('aria-labelledby="k0-trials-t') :]
    chart = chart[: chart.index("</svg>")]
    assert len(re.findall(r"<(?:circle|path)[^>]*><title>BLOCK_M", chart)) == 2  # one lacks a launch, two any time
    parsed = Parsed(text)
    rows = [text for _, text in parsed.all("tr") if "BLOCK_M=" in text and "grid follows" in text]
    assert len(rows) == 5
    assert rows[1].startswith("4.0 s")
    assert "results differ off the tile" in rows[1]


def test_trials_without_times_of_their_own_are_numbered():
    old = replace(SEARCHED, trials=samples.TRIALS)
    parsed = Parsed(page(of_search(old, samples.SOURCE)))
    assert any(text == "number of the trial" for _, text in parsed.all("text"))


@pytest.mark.parametrize(
    ("report", "step"),
    [
        (searched, "Apply the best version, and measure it on a target with a GPU: its gain is predicted."),
        (profiled, "Optimize it to look for a faster version that computes the same."),
        (lambda: of_search(samples.AT_ROOF, ""), "Read the findings: what is left needs another algorithm"),
    ],
)
def test_the_page_says_what_to_do_next(report, step):
    notes = [text for _, text in Parsed(page(report())).all(role="note")]
    assert any(text.startswith(f"Next: {step}") for text in notes)


def test_what_was_found_on_code_that_has_changed_since_says_so_and_is_not_offered():
    parsed = Parsed(page(replace(searched(), stale=True)))
    assert [text for _, text in parsed.all(role="note")] == ["The code has changed since. Profile it again."]
    assert parsed.all("button", data_do="apply") == []
    assert [attrs["data-do"] for attrs, _ in Parsed(page(searched())).all("button") if "data-do" in attrs] == [
        "apply", "profile", "optimize", "export",
    ]  # fmt: skip


def test_a_suggestion_without_a_passed_verdict_is_refused():
    unverified = replace(SEARCHED.best, trial=replace(TIMED[2], verdict=samples.REFUSED))
    with pytest.raises(ValueError, match="no passed verdict"):
        page(of_search(replace(SEARCHED, best=unverified), samples.SOURCE))


def test_a_page_that_would_become_too_large_says_which_listings_it_leaves_out(monkeypatch):
    monkeypatch.setattr("tritonforge.report.html_report.MOST_ROWS", 5)
    several = {"3f2a1b": (SASS,), "9c04de": (SASS,)}
    parsed = Parsed(page(with_listings(of_search(SEARCHED, samples.SOURCE), several)))
    assert len([one for one in parsed.all(role="option") if "HMMA" in one[1]]) == 1
    assert any(text.startswith("Left out:") for _, text in parsed.all("p", **{"class": "note muted"}))


def test_ten_thousand_rows_are_laid_out_in_blocks_and_are_not_much_longer_than_their_text():
    rows = 10_000
    lines = tuple((6 + n % 9,) for n in range(rows))
    huge = Listing("sass", tuple(f"{16 * n:05x}  FFMA R1, R2, R3, R4" for n in range(rows)), lines)
    text = page(with_listings(of_search(SEARCHED, samples.SOURCE), {"3f2a1b": (huge,)}))
    parsed = Parsed(text)
    assert len(parsed.all(role="option")) > rows
    assert len(parsed.all(**{"class": "block"})) == -(-rows // 64)
    assert len(text) - len(page(of_search(SEARCHED, samples.SOURCE))) < 125 * rows


@pytest.mark.parametrize("more", [{}, {"title": "Several things"}])
def test_no_level_of_headings_is_left_out(more):
    levels = [int(tag[1]) for tag, _ in Parsed(page(searched(), **more)).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
