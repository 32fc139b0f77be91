"""Half-typed, badly encoded and absurd files: an error with a line, never a crash, and the whole parts kept."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from analysis_snippets import IMPORTS, KERNEL
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.analysis import analyze

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
WHOLE = IMPORTS + KERNEL


def test_an_empty_file_has_nothing_and_no_error():
    for source in ("", b"", "\n\n", "# only a comment", b"\xef\xbb\xbf"):
        found = analyze(source, "f.py")
        assert (found.kernels, found.errors, found.entries) == ((), (), ())


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        ("def f(:\n    pass\n", 11),
        ("def f(x):\n    kernel[(1,)](x,\n", 12),
        ("def f(x):\n", 11),
        ("x = 'open\n", 11),
        ("class A:\n    def f(self):\n        return (\n", 13),
        ("@triton.jit\n", 11),
        ("if x:\n", 11),
        ("  indented = 1\n", 11),
        ('s = """never closed\n', 11),
    ],
)
def test_a_half_typed_end_keeps_the_kernel_above_it(tail, line):
    assert WHOLE.count("\n") == 10
    found = analyze(WHOLE + tail, "f.py")
    assert [k.name for k in found.kernels] == ["kernel"]
    (error,) = found.errors
    assert error.file == "f.py"
    assert line <= error.line <= line + 2
    assert error.message


def test_a_half_typed_kernel_keeps_the_kernels_around_it():
    broken = "@triton.jit\ndef broken(x, n,\n    i = tl.arange(0,\n\n"
    after = KERNEL.replace("def kernel", "def after")
    found = analyze(WHOLE + broken + after, "f.py")
    assert {"kernel", "after"} <= {k.name for k in found.kernels}
    assert len(found.errors) == 1


def test_a_broken_line_inside_a_kernel_keeps_the_rest_of_it():
    source = WHOLE.replace("    tl.store(", "    y = tl.load(x_ptr +\n    tl.store(")
    found = analyze(source, "f.py")
    (kernel,) = found.kernels
    assert kernel.tiles == ("BLOCK",)
    assert [e.line for e in found.errors] == [9]


def test_lines_below_a_broken_part_keep_their_numbers():
    source = "x = (\n" + "\n" * 3 + WHOLE
    found = analyze(source, "f.py")
    (kernel,) = found.kernels
    assert source.split("\n")[kernel.name_range.start.line - 1].startswith("def kernel")


def test_bytes_that_are_not_utf8_are_an_error_at_their_line():
    found = analyze(WHOLE.encode() + b"# caf\xe9\n", "f.py")
    assert [e.line for e in found.errors] == [11]
    assert "0xe9" in found.errors[0].message
    assert [k.name for k in found.kernels] == ["kernel"]


def test_a_coding_cookie_is_honoured():
    source = "# -*- coding: latin-1 -*-\n" + WHOLE + "s = 'café'\n"
    found = analyze(source.encode("latin-1"), "f.py")
    assert found.errors == ()
    assert [k.name for k in found.kernels] == ["kernel"]


def test_an_unknown_cookie_is_an_error_and_the_file_is_read_all_the_same():
    found = analyze(b"# coding: klingon\n" + WHOLE.encode(), "f.py")
    assert [e.line for e in found.errors] == [1]
    assert [k.name for k in found.kernels] == ["kernel"]


def test_null_bytes_are_an_error_at_their_line():
    for source in (WHOLE + "x = 1\0\n", (WHOLE + "x = 1\0\n").encode()):
        found = analyze(source, "f.py")
        assert [e.line for e in found.errors] == [11]
        assert [k.name for k in found.kernels] == ["kernel"]


def test_half_a_surrogate_pair_is_an_error():
    found = analyze(WHOLE + "s = '\ud800'\n", "f.py")
    assert [e.line for e in found.errors] == [11]
    assert [k.name for k in found.kernels] == ["kernel"]


@pytest.mark.parametrize(
    "absurd",
    [
        "x = " + "(" * 300 + ")" * 300,
        "x = " + "[" * 5000 + "]" * 5000,
        "x = " + "-" * 3000 + "1",
        "x = " + "+".join(["1"] * 5000),
        "x = a" + ".b" * 3000,
        "x = a" + "()" * 3000,
        "\n".join("    " * i + "if x:" for i in range(99)) + "\n" + "    " * 99 + "pass",
        "\n".join("    " * i + "if x:" for i in range(200)) + "\n" + "    " * 200 + "pass",
    ],
    ids=["parens", "brackets", "signs", "sum", "attributes", "calls", "blocks", "too-many-blocks"],
)
def test_absurd_nesting_never_crashes(absurd):
    analyze(WHOLE + absurd + "\n", "f.py")
    inside = WHOLE + "    " + absurd.replace("\n", "\n    ") + "\n"
    analyze(inside, "f.py")


def test_a_kernel_too_deep_to_follow_is_listed_with_an_error():
    deep = "    y = x_ptr" + " + 1" * 700 + "\n"
    found = analyze(WHOLE.rstrip("\n") + "\n" + deep, "f.py")
    (kernel,) = found.kernels
    assert len(kernel.code_hash) == 16
    assert [(e.line, "too deeply" in e.message) for e in found.errors] == [(7, True)]


def test_a_host_too_deep_to_unparse_leaves_its_launch_known():
    deep = "def host(x):\n    y = x" + " + 1" * 800 + "\n    kernel[(1,)](x, y, BLOCK=64)\n"
    (kernel,) = analyze(WHOLE + deep, "f.py").kernels
    (site,) = kernel.launch_sites
    assert len(site.site_hash) == 16


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.integers(0, 5000))
def test_a_file_cut_off_anywhere_never_raises(path, length):
    source = path.read_bytes()
    found = analyze(source[: length % (len(source) + 1)], path.name)
    assert all(e.line >= 1 for e in found.errors)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.integers(0, 2**32), st.integers(1, 6))
def test_a_file_with_lines_missing_never_raises(path, seed, count):
    lines = path.read_text(encoding="utf-8").split("\n")
    pick = random.Random(seed)
    for _ in range(count):
        del lines[pick.randrange(len(lines))]
    analyze("\n".join(lines), path.name)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXAMPLES), st.integers(0, 2**32), st.sampled_from(list("()[]{}\"'\\:,=#\t\n\r\f@*é😀\0")))
def test_a_file_with_stray_characters_never_raises(path, seed, stray):
    text = path.read_text(encoding="utf-8")
    at = seed % len(text)
    analyze(text[:at] + stray + text[at:], path.name)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(data):
    analyze(data, "f.py")


def test_a_parser_that_was_disturbed_is_asked_once_more(monkeypatch):
    real, asked = ast.parse, []

    def disturbed(source):
        asked.append(source)
        if len(asked) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=117, after=165)")
        return real(source)

    monkeypatch.setattr(ast, "parse", disturbed)
    found = analyze("import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n", "k.py")
    assert [kernel.name for kernel in found.kernels] == ["k"]
    assert not found.errors
