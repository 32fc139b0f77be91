"""Launch parameters: golden files before and after, and what holds for every edit."""

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import Refusal, rewrite_launch

GOLDEN = Path(__file__).parent.parent / "golden" / "rewrite"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/before.py"))


def _kernel(text, name, file="before.py"):
    return next(k for k in analyze(text, file).kernels if k.name == name)


def _launch(kernel, line=1, function="", **values):
    options = {n: v for n, v in values.items() if n.startswith("num_")}
    names = {p.name for p in kernel.parameters if p.constexpr}
    arguments = tuple((n, Scalar(v)) for n, v in values.items() if n not in options and n not in names)
    constexprs = tuple((n, Scalar(v)) for n, v in values.items() if n in names)
    config = Config(constexprs, tuple((n, Scalar(v)) for n, v in options.items()), (1, 1, 1))
    return Launch("1", kernel.file, kernel.name, Problem(arguments), config, CallSite(kernel.file, line, function))


def _rewrite(text, name, wanted, **launch):
    kernel = _kernel(text, name)
    return rewrite_launch(kernel, {"before.py": text}, wanted, _launch(kernel, **launch) if launch else None)


def _edited(text, name, wanted, **launch):
    outcome = _rewrite(text, name, wanted, **launch)
    assert isinstance(outcome, Candidate), outcome
    return apply_edits(text, outcome.edits)


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    text = (GOLDEN / case / "before.py").read_bytes().decode()
    task = json.loads((GOLDEN / case / "wanted.json").read_text())
    launch = ({"line": task["line"]} if "line" in task else {}) | task.get("ran", {})
    outcome = _rewrite(text, task["kernel"], task["wanted"], **launch)
    if "refusal" in task:
        assert isinstance(outcome, Refusal), outcome
        assert task["refusal"] in outcome.reason
        return
    assert isinstance(outcome, Candidate), outcome
    after = apply_edits(text, outcome.edits)
    assert after == (GOLDEN / case / "after.py").read_bytes().decode()
    ran = task["wanted"] if "ran" in task else {}
    again = _rewrite(after, task["kernel"], task["wanted"], **launch | ran)
    assert isinstance(again, Refusal)
    assert "nothing to change" in again.reason


def test_the_golden_files_hold_what_their_names_promise():
    assert b"\r\n" in (GOLDEN / "text_crlf" / "after.py").read_bytes()
    assert b"\n" not in (GOLDEN / "text_crlf" / "after.py").read_bytes().replace(b"\r\n", b"")
    assert b"\t\tnum_warps" in (GOLDEN / "text_tabs" / "after.py").read_bytes()
    assert not (GOLDEN / "text_no_final_newline" / "after.py").read_bytes().endswith(b"\n")


def test_a_candidate_says_what_it_sets_and_what_for():
    text = (EXAMPLES / "matmul.py").read_text()
    kernel = _kernel(text, "matmul_kernel", "examples/matmul.py")
    wanted = {"num_warps": 8, "BLOCK_N": 256, "BLOCK_K": 64, "BLOCK_M": 128}
    outcome = rewrite_launch(kernel, {"examples/matmul.py": text}, wanted, treats=("TF203",))
    assert isinstance(outcome, Candidate)
    assert outcome.title == "BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8"
    assert outcome.rewrites == (
        ("launch-parameters", (("BLOCK_M", "128"), ("BLOCK_N", "256"), ("BLOCK_K", "64"), ("num_warps", "8"))),
    )
    assert (outcome.origin, outcome.treats) == ("rule", ("TF203",))


def test_a_value_that_only_the_caller_knows_is_not_edited_at_the_default():
    text = (GOLDEN / "value_host_default" / "before.py").read_text()
    outcome = _rewrite(text, "add_kernel", {"BLOCK": 1024}, BLOCK=512)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "this launch ran with BLOCK=512, while the source says 64."


def test_values_that_the_launch_has_already_need_no_place_to_be_edited():
    text = (GOLDEN / "value_row_tile" / "before.py").read_text()
    after = _edited(text, "row_kernel", {"BLOCK_SIZE": 4096, "num_warps": 16}, BLOCK_SIZE=4096, num_warps=8)
    assert "        num_warps = 16\n" in after, "in the branch that was taken"
    assert "BLOCK_SIZE=BLOCK_SIZE" in after


def test_an_option_at_its_default_is_not_spelled_out():
    text = (GOLDEN / "grid_inline_cdiv" / "before.py").read_text()
    assert "num_" not in _edited(text, "add_kernel", {"BLOCK": 128, "num_warps": 4, "num_stages": 3})


def test_only_the_recorded_site_changes_when_nothing_is_shared():
    text = (GOLDEN / "sites_all" / "before.py").read_text()
    line = 1 + text[: text.index("BLOCK=256")].count("\n")
    after = _edited(text, "add_kernel", {"BLOCK": 1024}, line=line)
    assert after.count("1024") == 2
    assert after.count("BLOCK=64") == 2


def test_a_site_is_found_by_its_function_when_the_line_is_not_a_launch():
    text = (GOLDEN / "sites_all" / "before.py").read_text()
    after = _edited(text, "add_kernel", {"BLOCK": 1024}, line=1, function="add_to")
    assert after.count("BLOCK=64") == 2


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"BLOK": 64}, "add_kernel has no constexpr parameter and no option BLOK."),
        ({"n": 64}, "add_kernel has no constexpr parameter and no option n."),
        ({"BLOCK": 0}, "BLOCK must be at least 1."),
        ({"BLOCK": 64}, "nothing to change: the launch has these values already."),
        ({}, "nothing to change: the launch has these values already."),
    ],
)
def test_what_cannot_be_wanted_is_refused_in_a_sentence(wanted, reason):
    text = (GOLDEN / "grid_inline_cdiv" / "before.py").read_text()
    outcome = _rewrite(text, "add_kernel", wanted)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == reason


def test_a_file_that_changed_since_it_was_analysed_is_refused():
    text = (GOLDEN / "grid_inline_cdiv" / "before.py").read_text()
    kernel = _kernel(text, "add_kernel")
    outcome = rewrite_launch(kernel, {"before.py": "\n" + text}, {"BLOCK": 128})
    assert outcome == Refusal("before.py has changed since it was analysed.", "launch-parameters")
    broken = rewrite_launch(kernel, {"before.py": text + "def ("}, {"BLOCK": 128})
    assert isinstance(broken, Refusal)
    assert "cannot be parsed" in broken.reason


_EDITED = sorted(n for p in GOLDEN.glob("*/after.py") if not (n := p.parent.name).startswith("autotune_"))
powers = st.sampled_from([16, 32, 64, 128, 256, 512, 1024, 2048])


@st.composite
def _tasks(draw):
    where = draw(st.sampled_from([*(EXAMPLES / f"{n}.py" for n in ("matmul", "scale_shift", "row_softmax")), *_EDITED]))
    path = where if isinstance(where, Path) else GOLDEN / where / "before.py"
    text = path.read_bytes().decode()
    kernels = [k for k in analyze(text, "before.py").kernels if k.launch_sites]
    kernel = draw(st.sampled_from(kernels))
    names = draw(st.lists(st.sampled_from([*kernel.tiles, "num_warps", "num_stages"]), unique=True, min_size=1))
    wanted = {n: draw(st.sampled_from([1, 2, 4, 8]) if n.startswith("num_") else powers) for n in names}
    task = json.loads((path.parent / "wanted.json").read_text()) if path.name == "before.py" else {}
    known = "ran" in task and task["kernel"] == kernel.name and draw(st.booleans())
    return text, kernel, wanted, task["ran"] if known else {}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_tasks())
def test_any_values_give_a_refusal_or_an_edit_that_parses_and_touches_only_numbers(task):
    text, kernel, wanted, ran = task
    outcome = rewrite_launch(kernel, {"before.py": text}, wanted, _launch(kernel, **ran) if ran else None)
    if isinstance(outcome, Refusal):
        assert outcome.reason.endswith(".")
        return
    after = apply_edits(text, outcome.edits)
    ast.parse(after)
    for edit in outcome.edits:
        replaced = text[edit.start : edit.end]
        comment = re.fullmatch(r"\d+( *[×x*] *\d+)+", replaced)
        # a number, or a name, attribute or entry that gave one
        whole = r"\(?triton\.cdiv\(n, \d+\),( 1)?\)?( \+ \(1,\))?"
        own_grid = replaced in {"grid", "grid + (1,)"} and re.fullmatch(whole, edit.text)
        assert re.fullmatch(r"[\w.]*(\[\"\w+\"\])?", replaced) or comment or own_grid, replaced
        assert re.fullmatch(r"\d+|,?(\s*\w+=\d+,?)+|,", edit.text) or comment or own_grid, edit.text
    # Backwards from the result: what lies between the edits is what it was.
    at, shift = 0, 0
    for edit in outcome.edits:
        assert text[at : edit.start] == after[at + shift : edit.start + shift]
        shift += len(edit.text) - (edit.end - edit.start)
        at = edit.end
    assert text[at:] == after[at + shift :]
    edited = _kernel(after, kernel.name)
    again = rewrite_launch(edited, {"before.py": after}, wanted, _launch(edited, **ran | wanted) if ran else None)
    assert isinstance(again, Refusal), again
    assert "nothing to change" in again.reason


@settings(max_examples=40, deadline=None)
@given(first=powers, second=powers)
def test_going_and_coming_back_restores_the_file(first, second):
    text = (GOLDEN / "matmul_options_given" / "before.py").read_text()
    there = {"BLOCK_M": first, "BLOCK_N": second, "BLOCK_K": 64}
    back = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    after = _edited(text, "mm_kernel", there)
    assert _edited(after, "mm_kernel", back) == text
