"""Ranges are lines and columns in code points, whatever the line holds."""

from __future__ import annotations

import pytest
from analysis_snippets import IMPORTS, KERNEL, cut, only_site, value

from tritonforge.analysis import SourceText, analyze


def block_origin(source):
    found = analyze(source, "f.py")
    assert found.errors == ()
    return value(only_site(found), "BLOCK").origin


@pytest.mark.parametrize(
    "line",
    [
        "s = 'é😀é'; kernel[(1,)](x, 3, BLOCK=64)",
        "if 1:\n\ts = '\t😀'; kernel[(1,)](x, 3, BLOCK=64)",
        "\fs = 1; kernel[(1,)](x, 3, BLOCK=64)",
        "s = '\u2028\x0b\x1c'; kernel[(1,)](x, 3, BLOCK=64)",
        "größe = 1; kernel[(größe,)](x, 3, BLOCK=64)",
    ],
    ids=["emoji", "tabs", "form-feed", "separators", "identifiers"],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_value_is_found_by_line_and_code_point(line, ending):
    source = (IMPORTS + KERNEL + line + "\n").replace("\n", ending)
    origin = block_origin(source)
    lines = source.split(ending)
    text = lines[origin.start.line - 1]
    assert origin.start.line == origin.end.line
    assert text[origin.start.column - 1 : origin.end.column - 1] == "64"
    assert text[: origin.start.column - 1].endswith("BLOCK=")


def test_a_byte_order_mark_counts_in_text_and_not_in_bytes():
    line = "import triton, triton.language as tl; kernel = triton.jit(fn); kernel[(1,)](x, B=64)\n"
    source = line + "def fn(x, B: tl.constexpr):\n    tl.store(x + tl.arange(0, B), 1)\n"
    plain = value(only_site(analyze(source, "f.py")), "B").origin
    marked = value(only_site(analyze("\ufeff" + source, "f.py")), "B").origin
    as_bytes = value(only_site(analyze(("\ufeff" + source).encode(), "f.py")), "B").origin
    assert as_bytes == plain
    assert marked.start.column == plain.start.column + 1
    assert cut("\ufeff" + source, marked) == cut(source, plain) == "64"


def test_a_range_over_several_lines_gives_its_exact_text():
    source = IMPORTS + KERNEL + "kernel[\n    (1,\n     2)  # é\n](x, 3, BLOCK=(\n  64))\n"
    site = only_site(analyze(source, "f.py"))
    assert cut(source, site.grid_range) == site.grid == "(1,\n     2)"
    assert cut(source, site.range).startswith("kernel[")
    assert cut(source, site.range).endswith("64))")


def test_a_decorator_s_at_sign_starts_the_kernel_s_range():
    source = IMPORTS + KERNEL.replace("@triton.jit", "@  triton.jit")
    (kernel,) = analyze(source, "f.py").kernels
    assert cut(source, kernel.range).startswith("@  triton.jit\ndef kernel")
    assert cut(source, kernel.name_range) == "kernel"


def test_source_text_cuts_what_it_ranges():
    text = SourceText("a = 1\r\nb = 2\rc = 3\n")
    assert text.lines == ["a = 1", "b = 2", "c = 3", ""]
