"""Mends of findings about correctness: what is written, what is left to the author, and that none poses as speed."""

import ast

import pytest

from tritonforge.analysis import analyze
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import Refusal, RuleEngine
from tritonforge.rewrite.mends import CODES, mends
from tritonforge.rewrite.protocol import Task

HEAD = "import triton\nimport triton.language as tl\n\n\n"
SUM = """\
@triton.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr, tl.sum(x, axis=0))
"""


def kernel_of(text):
    return analyze(text, "k.py").kernels[0]


def mended(code, body, marker, message="", head=HEAD):
    """Return what the mends of the line that holds `marker` make of it, and their labels."""
    text = head + body
    line = next(i for i, one in enumerate(text.split("\n"), 1) if marker in one)
    kernel = kernel_of(text)
    found = mends(code, line, kernel, text, message)
    after = [apply_edits(text, one.edits) for one in found]
    for one in after:
        ast.parse(one)
        # Made once, there is nothing left to mend.
        assert mends(code, line, kernel_of(one), one, message) == ()
    return [one[len(head) :] for one in after], [one.label for one in found]


def test_lanes_that_reach_a_sum_become_zero():
    after, labels = mended("TF502", SUM, "tl.load")
    assert after == [SUM.replace("mask=i < n)", "mask=i < n, other=0.0)")]
    assert labels == ["Mend TF502: other=0.0 for the load (changes what is computed)"]


@pytest.mark.parametrize(
    ("use", "other"),
    [
        ("tl.sum(x.to(tl.float32) * x, axis=0)", "0.0"),
        ("tl.sum(x * tl.load(x_ptr + n + i), axis=0)", "0.0"),
        ("tl.max(x.to(tl.float32), axis=0)", '-float("inf")'),
        ("tl.min(x.to(tl.float32), axis=0)", 'float("inf")'),
        ("tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0)", '-float("inf")'),
        # What nobody knows from the text: an integer's lowest value, a sum of exponentials or of x + 1, two wishes.
        ("tl.max(x, axis=0)", None),
        ("tl.sum(tl.exp(x), axis=0)", None),
        ("tl.sum(x + 1.0, axis=0)", None),
        ("tl.sum(x, axis=0) + tl.max(x.to(tl.float32), axis=0)", None),
        ("tl.argmax(x, axis=0)", None),
    ],
)
def test_what_fills_lanes_follows_from_what_is_made_of_them(use, other):
    body = SUM.replace("tl.sum(x, axis=0)", use)
    after, _ = mended("TF502", body, "x = tl.load")
    assert after == ([body.replace("mask=i < n)", f"mask=i < n, other={other})")] if other else [])


def test_values_are_followed_through_names():
    body = SUM.replace(
        "    tl.store(o_ptr, tl.sum(x, axis=0))",
        "    m = tl.max(x, axis=0)\n    p = tl.exp(x - m)\n    tl.store(o_ptr, tl.sum(p * 2.0, axis=0))",
    )
    after, _ = mended("TF502", body, "x = tl.load")
    assert after == [body.replace("mask=i < n)", 'mask=i < n, other=-float("inf"))')]
    lost = body.replace("p = tl.exp(x - m)", "p = x + 1.0")
    assert mended("TF502", lost, "x = tl.load")[0] == []


@pytest.mark.parametrize(
    "between",
    [
        "x += 1.0",
        "x = x + 1.0",
        "x = x - tl.sum(x, axis=0) / n",
        "if n > 5:\n        x = tl.zeros((BLOCK,), tl.float32)",
        "tl.store(o_ptr + 1, x.max(axis=0))",
        "tl.store(o_ptr + 1, tl.argmax(x, axis=0))",
        "tl.store(o_ptr + 1, lowest(x))",
    ],
)
def test_what_is_not_known_of_masked_lanes_is_left_to_the_author(between):
    body = SUM.replace("    tl.store(", f"    {between}\n    tl.store(")
    assert mended("TF502", body, "x = tl.load")[0] == []


def test_a_name_that_is_set_anew_is_not_the_load_any_more():
    later = "    x = tl.load(o_ptr + i, mask=i < n, other=1.0)\n    tl.store(o_ptr, tl.sum(x + 1.0, axis=0))\n"
    after, _ = mended("TF502", SUM + later, "x = tl.load(x_ptr")
    assert after == [SUM.replace("mask=i < n)", "mask=i < n, other=0.0)") + later]


STORE = """\
@triton.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside)
    tl.store(o_ptr + i, x * 2)
"""


def test_a_store_takes_the_mask_of_the_load_beside_it():
    after, labels = mended("TF503", STORE, "tl.store")
    assert after == [STORE.replace("x * 2)", "x * 2, mask=inside)")]
    assert labels == ["Mend TF503: mask=inside, as the access of x_ptr has it (changes what is computed)"]


def test_a_mask_that_is_not_set_yet_is_none():
    body = STORE.replace(
        "    inside = i < n\n    x = tl.load(x_ptr + i, mask=inside)\n    tl.store(o_ptr + i, x * 2)\n", ""
    )
    body += "    tl.store(o_ptr + i, i)\n    inside = i < n\n    x = tl.load(x_ptr + i, mask=inside)\n    print(x)\n"
    assert mended("TF503", body, "tl.store")[0] == []


def test_a_mask_with_a_length_that_changes_is_none():
    body = STORE.replace("mask=inside)\n", "mask=i < n)\n    n = n // 2\n").replace("    inside = i < n\n", "")
    assert mended("TF503", body, "tl.store")[0] == []


OFFSET = """\
@triton.jit
def kernel(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * stride + i, 1.0)  # rows may be many
"""


def test_an_index_is_widened_before_it_is_multiplied():
    after, labels = mended("TF501", OFFSET, "tl.store")
    assert after == [OFFSET.replace("row * stride", "row.to(tl.int64) * stride")]
    assert labels == ["Mend TF501: row in 64 bits before it is multiplied (changes what is computed)"]
    sums = OFFSET.replace("row * stride", "(row + 1) * stride")
    assert mended("TF501", sums, "tl.store")[0] == [sums.replace("(row + 1)", "(row + 1).to(tl.int64)")]
    three = OFFSET.replace("row * stride", "row * n * stride").replace("y_ptr, stride", "y_ptr, n, stride")
    assert mended("TF501", three, "tl.store")[0] == [three.replace("row * n", "row.to(tl.int64) * n")]
    twice = OFFSET.replace("row * stride + i", "row * stride + row * stride + i")
    assert mended("TF501", twice, "tl.store")[0] == []


TUNED = """\
@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0))
"""


def test_an_autotuner_restores_what_its_runs_change():
    after, labels = mended("TF504", TUNED, "tl.atomic_add")
    assert after == [TUNED.replace('key=["n"])', 'key=["n"], restore_value=["o_ptr"])')]
    assert labels == ['Mend TF504: restore_value=["o_ptr"] for the autotuner (changes what is computed)']


DOT = """\
@triton.jit
def kernel(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.dot(x, x))
"""


def test_a_dot_multiplies_float32_where_tf32_was_not_meant():
    after, _ = mended("TF505", DOT, "tl.dot", "rounded to tf32 (10 bits of mantissa)")
    assert after == [DOT.replace("tl.dot(x, x)", 'tl.dot(x, x, input_precision="ieee")')]
    assert mended("TF505", DOT, "tl.dot", "A loop adds up in float16")[0] == []


def test_a_deprecated_argument_is_renamed_and_changes_nothing():
    body = DOT.replace("tl.dot(x, x)", "tl.dot(x, x, allow_tf32=False)")
    after, labels = mended("TF601", body, "tl.dot")
    assert after == [DOT.replace("tl.dot(x, x)", 'tl.dot(x, x, input_precision="ieee")')]
    assert labels == ['Mend TF601: input_precision="ieee" instead of allow_tf32=False']


@pytest.mark.parametrize("body", [SUM, STORE, OFFSET, TUNED, DOT])
def test_findings_of_the_source_are_mended_and_the_search_for_speed_proposes_no_mend(body):
    text = HEAD + body
    kernel = kernel_of(text)
    for finding in diagnose(kernel):
        if finding.code in {"TF502", "TF503", "TF504"}:
            assert mends(finding.code, finding.range.start.line, kernel, text), finding
    made = {apply_edits(text, m.edits) for c in CODES for n in range(1, 12) for m in mends(c, n, kernel, text, "tf32")}
    proposed = [c for c in RuleEngine().propose(Task(kernel, {"k.py": text}, ())) if not isinstance(c, Refusal)]
    assert not made & {apply_edits(text, candidate.edits) for candidate in proposed}


def test_odd_source_has_no_mend():
    assert mends("TF502", 8, kernel_of(HEAD + SUM), "def (") == ()
    assert mends("TF203", 8, kernel_of(HEAD + SUM), HEAD + SUM) == ()
