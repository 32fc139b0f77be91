"""Tensor descriptors: what is left to pointers, what the host code asks, and other rewrites before and after."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_structural_golden import BY_NAME, task_of

from tritonforge.domain.finding import Bottleneck
from tritonforge.rewrite import Refusal, RuleEngine
from tritonforge.rewrite.structural import rewrites

GOLDEN = Path(__file__).parent.parent / "golden" / "structural"
FILE = "before.py"


def task(case, *changes, **values):
    """Return a golden case's task with other words in its text and other recorded values (`tensors` and `arch` too)."""
    wanted = json.loads((GOLDEN / case / "task.json").read_text())
    text = (GOLDEN / case / FILE).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    wanted["arch"] = values.pop("arch", "sm_90")
    wanted["tensors"] |= values.pop("tensors", {})
    wanted["values"] |= values
    return task_of(text, wanted)


def made(before, name="tensor-descriptors"):
    (outcome,) = list(rewrites(BY_NAME[name], before))[:1]
    return outcome


def unparsed(text):
    return ast.unparse(ast.parse(text)).splitlines()


def text_of(before):
    outcome = made(before)
    assert not isinstance(outcome, Refusal), outcome
    return outcome.task.texts[FILE]


REFUSED = {
    "a GPU without TMA": (("descriptors_attention",), {"arch": "sm_80"}, "has no unit that copies tiles"),
    "rows that begin anywhere": (
        ("descriptors_attention",), {"stride_kn": 136}, "stride_kn is no multiple of 16 elements in the recorded launch"
    ),
    "elements apart": (
        ("descriptors_linear", ("stride_x + k[None, :]", "stride_x + k[None, :] * stride_w"),
         ("[:, None] + k[None, :]", "[:, None] + k[None, :] * stride_x")), {},
        "nothing shows which elements of a tile lie side by side",
    ),
    "no end": (
        ("descriptors_linear", ("mask, 0.0)", ")"), (", mask=(n[:, None] < N) & (k[None, :] < K), other=0.0", "")), {},
        "nothing says where the matrix of x_ptr ends",
    ),
    "fp32 across the contraction": (
        ("descriptors_linear",
         ("w_ptr + (n * stride_w)[:, None] + k[None, :]", "w_ptr + (k * stride_w)[:, None] + n[None, :]"),
         ("(n[:, None] < N) & (k[None, :] < K)", "(k[:, None] < K) & (n[None, :] < N)"), ("tl.trans(w)", "w")), {},
        "one lies across the contraction",
    ),
    "fp32 that is not rounded": (
        ("descriptors_linear", ("tl.trans(w), acc", 'tl.trans(w), acc, input_precision="ieee"')), {}, "not rounded to tf32"
    ),
    "an unknown dtype": (
        ("descriptors_linear",), {"tensors": {n: [[4096, 4096], [4096, 1], "float64"] for n in ("x_ptr", "w_ptr")}},
        "not multiplied through descriptors",
    ),
    "a wide tile": (("descriptors_linear",), {"BLOCK_K": 512}, "more than 256 elements"),
    "a narrow tile": (("descriptors_linear",), {"BLOCK_K": 2}, "fewer than 16 bytes"),
    "a pointer that moves": (
        ("descriptors_linear", ("w_ptr + (n", "w_ptr + step + (n"),
         ("acc = tl.dot(x, tl.trans(w), acc)", "acc = tl.dot(x, tl.trans(w), acc)\n            w_ptr += BLOCK_K")), {},
        "w_ptr moves on with each round",
    ),
    "no dot": (("descriptors_linear", ("tl.dot(x, tl.trans(w), acc)", "acc + tl.sum(x)")), {}, "no loop loads an operand"),
    "a traced host": (
        ("descriptors_attention", ("def attention(", "@torch.compile\ndef attention(")), {}, "torch.compile traces"
    ),
    "what is computed at the launch": (
        ("descriptors_attention", ("HEAD_DIM=head_dim", "HEAD_DIM=width(q)")), {}, "what it passes for HEAD_DIM"
    ),
    "a tensor that is made at the launch": (
        ("descriptors_linear", ("(x, weight, y,", "(x.view(M, K), weight, y,")), {}, "what it passes for x_ptr"
    ),
    "torch under another name": (("descriptors_attention", ("import torch\n", "import torch as th\n")), {}, "torch is not"),
}  # fmt: skip
"""What is refused → the golden case with changes, recorded values, and words of the reason."""


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what):
    (case, *changes), values, reason = REFUSED[what]
    outcome = made(task(case, *changes, **values))
    assert isinstance(outcome, Refusal)
    assert reason in outcome.reason


def test_a_base_that_is_not_aligned_in_the_recorded_launch_is_refused():
    before = task("descriptors_attention")
    first = before.launches[0]
    arguments = tuple((n, replace(v, alignment=8) if n == "v_ptr" else v) for n, v in first.problem.arguments)
    launch = replace(first, problem=replace(first.problem, arguments=arguments))
    outcome = made(replace(before, launches=(launch,)))
    assert isinstance(outcome, Refusal)
    assert "v_ptr does not begin at a multiple of 16 bytes" in outcome.reason


LEFT = {
    "a mask that says more": ("inside[None, :]", "inside[None, :] & (dims[:, None] != 3)"),
    "a mask at or below": ("inside = keys < length", "inside = keys <= length"),
    "a mask of other keys": ("inside = keys < length", "inside = keys + 1 < length"),
    "other than zeros": (
        "mask=inside[None, :],\n            other=0.0",
        "mask=inside[None, :],\n            other=1.0",
    ),
    "an eviction policy": ("mask=inside[None, :],", "mask=inside[None, :],\n            eviction_policy='evict_last',"),
    "no mask": ("            mask=inside[None, :],\n            other=0.0,\n", ""),
    "a page in each round": ("k_ptr + k_base + keys", "k_ptr + start // 16 * stride_kb + keys"),
    "keys that are looked up": ("keys[None, :] * stride_kn", "tl.load(q_ptr + keys)[None, :] * stride_kn"),
    "a base of unknown distance": ("k_ptr + k_base + keys", "k_ptr + k_base + head + keys"),
    "keys that another round set": ("inside = keys < length", "inside = keys < length\n        keys += 0"),
    "what the dot does not multiply": ("tl.dot(q, k)", "tl.dot(q, k * 2)"),
}
"""What is left to pointers → what makes it so, in keys alone: values are read through a descriptor all the same."""


@pytest.mark.parametrize("what", LEFT)
def test_it_is_left_to_pointers(what):
    before = task("descriptors_attention", LEFT[what])
    if what == "keys that another round set":
        assert "set more than once" in made(before).reason
        return
    after = text_of(before)
    assert "v = v_desc.load([start, 0])" in after
    assert "k_desc" not in after


def test_every_launch_says_whether_its_rows_are_aligned():
    before = task(
        "descriptors_linear",
        (
            "    return y\n",
            "    return y\n\n\ndef again(a, b, y):\n    linear_kernel[(1,)](a, b, y, 1, 1, 64, 64, 96, 1)\n",
        ),
    )
    after = text_of(before)
    assert "    aligned = a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0\n    linear_kernel[(1,)](" in after
    assert after.count("ALIGNED=aligned") == 2
    assert after.count("set_allocator(") == 1  # the author's


def test_a_head_of_any_width_is_asked_about_in_the_words_of_the_launch():
    wide = "max(16, triton.next_power_of_2(head_dim))"
    assert f"and {wide} % 16 == 0" in text_of(task("descriptors_attention", ("HEAD_DIM=head_dim", f"HEAD_DIM={wide}")))


ORDERS = {
    "exp2-scale": ("scores = tl.dot(q, k) * scale_log2",),
    "masked-tail": ("for start in range(0, full_end, BLOCK_N):", "for start in range(full_end, length, BLOCK_N):"),
}


@pytest.mark.parametrize("other", ORDERS)
def test_other_rewrites_make_the_same_before_and_after(other):
    before = task("descriptors_attention")
    earlier = made(made(before, other).task).task.texts[FILE]
    later = made(made(before).task, other).task.texts[FILE]
    # Lines that each puts in front of the loop come in the order in which they were made.
    assert sorted(unparsed(earlier)) == sorted(unparsed(later))
    assert all(words in earlier for words in ORDERS[other])
    loops = earlier.count("for start in range")
    assert len(re.findall(r"k_desc\.load|v_desc\.load", earlier)) == 2 * loops
    assert earlier.count("make_tensor_descriptor") == 2


def test_full_blocks_without_a_mask_end_where_the_last_block_does():
    split = made(task("descriptors_attention"), "masked-tail").task
    assert "mask=" not in split.texts[FILE].split("for start")[1].split("scores = ")[0].replace("mask=inside", "")
    assert "[length, HEAD_DIM]" in text_of(split)


def test_a_k_major_copy_makes_an_operand_of_tf32_one_for_a_descriptor():
    before = task("kmajor_matmul", (', input_precision="ieee"', ""))
    assert isinstance(made(before), Refusal)
    after = text_of(made(before, "k-major").task)
    assert "b_desc" in after
    assert re.search(r"b_desc\.load\(\[.*\]\)\.T", after)
    assert "b.stride(0) == 1" in after


def test_no_launch_parameter_is_made_of_the_constexpr_that_tells_whether_rows_are_aligned():
    before = replace(task("descriptors_attention"), bottlenecks={"1": Bottleneck("latency", 1.0, "predicted")})
    steps = RuleEngine([BY_NAME["tensor-descriptors"]]).propose(before)
    both = [c for c in steps if not isinstance(c, Refusal) and len(c.rewrites) == 2]
    assert both
    assert all("ALIGNED" not in dict(dict(c.rewrites)["launch-parameters"]) for c in both)


def test_pointers_that_move_on_in_one_line_each_move_by_their_own_step():
    apart = "        a_ptrs += BLOCK_K * stride_ak\n        b_ptrs += BLOCK_K * stride_bk\n"
    after = text_of(task("descriptors_moving", (apart, apart.replace("stride_ak\n        ", "stride_ak; "))))
    assert "a_desc.load([tl.program_id(0) * BLOCK_M, step * BLOCK_K])" in after
    assert "b_desc.load([step * BLOCK_K, tl.program_id(1) * BLOCK_N])" in after
