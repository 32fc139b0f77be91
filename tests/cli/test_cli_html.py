"""`--format html` of `profile` and `optimize`: one page on stdout, of a kernel or of an Nsight Compute report."""

from __future__ import annotations

import lzma
import re
from html import unescape
from pathlib import Path

import pytest

from tritonforge.cli.main import run
from tritonforge.profiling.nsight.finding import find_ncu
from tritonforge.profiling.nsight.isolated import has_module

DATA = Path(__file__).parents[1] / "data" / "h200"


def rows(page, pane):
    """The (lines, text) of each row of a pane, of every kernel on the page."""
    panes = [part for part in page.split('data-pane="')[1:] if part.startswith(f'{pane}"')]
    found = re.findall(r'<div class="r([^>]*)>(.*?)</div>', "".join(panes), re.DOTALL)
    return [(_lines(attributes), unescape(re.sub(r"<[^>]+>", "", text))) for attributes, text in found]


def _lines(attributes):
    placed = re.search(r' data-l="([\d ]+)"', attributes)
    return placed[1].split() if placed else []


@pytest.mark.skipif(not has_module() and find_ncu() is None, reason="nothing here reads Nsight Compute reports")
def test_a_report_becomes_a_page_with_its_machine_code_on_the_lines_of_the_source(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = (DATA / "two_kernels.py").read_text()
    Path("k.py").write_text(source)
    Path("two.ncu-rep").write_bytes(lzma.decompress((DATA / "two_kernels.ncu-rep.xz").read_bytes()))

    assert run(["profile", "k.py", "--report", "two.ncu-rep", "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r'<h2 id="k\d"><code>(\w+)</code>', page) == ["rowsum", "mm"]
    assert "report two.ncu-rep (NVIDIA H200)" in page

    lines = source.splitlines()
    code = rows(page, "sass")
    assert len(code) > 400
    assert all(placed for placed, _ in code), "every instruction has a line"
    for operation, call in (("LDG", "tl.load("), ("STG", "tl.store(")):
        placed = {lines[int(placed[0]) - 1].strip() for placed, text in code if f" {operation}." in text}
        assert placed
        assert all(call in line for line in placed)
    hot = [(share, text) for _, text in rows(page, "source") if (share := re.match(r"(\d+) %", text))]
    assert max(hot, key=lambda one: int(one[0][1]))[1].endswith(lines[8])  # the store that waits for the loads


def test_a_page_is_of_one_kernel_and_no_diff(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text("import triton\n")
    assert run(["profile", "--format", "html", "--", "true"]) == 2
    assert "--format html is for one kernel" in capsys.readouterr().err
    assert run(["optimize", "k.py", "--diff", "--format", "html"]) == 2
    said = capsys.readouterr()
    assert "--diff and --format html exclude each other" in said.err
    assert said.out == ""


@pytest.mark.triton
def test_a_profile_becomes_a_page_with_every_listing_and_says_what_is_predicted(fresh_examples, monkeypatch, capsys):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    folder = fresh_examples()
    monkeypatch.chdir(folder)
    assert run(["profile", "matmul.py", "--target", "offline", "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert re.findall(r'role="tab"[^>]*>(\w+)<', page) == ["TTIR", "TTGIR", "PTX", "SASS"]
    source = Path("matmul.py").read_text().splitlines()
    dot = next(n for n, line in enumerate(source, 1) if "tl.dot" in line)
    for pane, operation in (("ttir", "tt.dot "), ("ttgir", "tt.dot "), ("ptx", "mma.sync"), ("sass", "HMMA")):
        placed = {lines[0] for lines, text in rows(page, pane) if operation in text}
        assert placed == {str(dot)}, pane
    assert re.search(r"<dt>Time</dt><dd>[\d.]+ .?s</dd><dd>predicted", page)
    best = ["optimize", "scale_shift.py", "--target", "offline", "--budget", "1", "--format", "html"]
    assert run(best) == 0
    searched = capsys.readouterr().out
    assert re.findall(r'role="tab"[^>]*>(\w+)<', searched) == ["TTIR", "TTGIR", "PTX", "SASS"]
    assert "not tried: budget spent" in searched, "a second is not enough for more than the original"
    assert "measured" not in re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL).replace(
        "Nothing was measured", ""
    )
