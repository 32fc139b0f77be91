"""A kernel that another file imports and launches: found there, edited there, whole or not at all."""

import dataclasses

import pytest

from tritonforge.analysis import analyze, launches_elsewhere
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar
from tritonforge.domain.source import Edit, apply_edits
from tritonforge.rewrite import ChangedOnDisk, Refusal, RuleEngine, apply_to_disk, edits_between, rewrite_launch
from tritonforge.rewrite.protocol import Task
from tritonforge.rewrite.structural import REWRITES, rewrites
from tritonforge.workload.subject import Subject

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


@triton.jit
def row_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
"""
OPS = """\
import torch
import triton

from .kernels import row_kernel, scale_kernel


def scale(x, factor):
    out = torch.empty_like(x)
    n = x.numel()
    BLOCK = 128  # elements of a program
    scale_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, factor, BLOCK)
    return out


def sum_rows(x):
    n_rows, n_cols = x.shape
    out = torch.empty(n_rows)
    row_kernel[(n_rows,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return out
"""
FILES = {"src/lib/kernels.py": KERNELS, "src/lib/ops.py": OPS}


def kernel_of(name, texts=FILES):
    return next(k for k in analyze(texts["src/lib/kernels.py"], "src/lib/kernels.py").kernels if k.name == name)


def launch_of(kernel, file, line, problem=(), grid=(1, 1, 1), **values):
    options = (("num_warps", Scalar(4)), ("num_stages", Scalar(3)))
    config = Config(tuple((k, Scalar(v)) for k, v in values.items()), options, grid)
    return Launch("1", kernel.file, kernel.name, Problem(tuple(problem)), config, CallSite(file, line, ""))


def edited(texts, candidate):
    return {
        file: apply_edits(text, tuple(e for e in candidate.edits if e.file == file)) for file, text in texts.items()
    }


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("from .kernels import scale_kernel", "scale_kernel"),
        ("from lib.kernels import scale_kernel as k", "k"),
        ("from lib import kernels", "kernels.scale_kernel"),
        ("from . import kernels as kk", "kk.scale_kernel"),
        ("import lib.kernels", "lib.kernels.scale_kernel"),
    ],
)
def test_launches_are_found_by_whatever_name_the_kernel_is_imported(line, called):
    text = f"{line}\n\ndef run(x, out, n):\n    {called}[(n,)](x, out, n, 2.0, BLOCK=32)\n"
    (site,) = launches_elsewhere(kernel_of("scale_kernel"), KERNELS, "src/lib/ops.py", text)
    assert (site.file, site.host, site.range.start.line) == ("src/lib/ops.py", "run", 4)
    assert [(name, value.text, value.source) for name, value in site.constexprs] == [("BLOCK", "32", "literal")]
    assert site.site_hash


@pytest.mark.parametrize(
    "text",
    [
        "from other.kernels import scale_kernel\nscale_kernel[(1,)](BLOCK=32)\n",
        "from ...kernels import scale_kernel\nscale_kernel[(1,)](BLOCK=32)\n",
        "from .kernels import scale_kernel\nprint(scale_kernel)\n",
        "from .kernels import scale_kernel\ndef (\n",
        "def scale_kernel(): ...\nscale_kernel[(1,)](BLOCK=32)\n",
    ],
)
def test_what_only_looks_like_it_is_no_launch(text):
    assert launches_elsewhere(kernel_of("scale_kernel"), KERNELS, "src/lib/ops.py", text) == ()


def test_tiles_are_edited_where_the_host_function_sets_them():
    kernel = kernel_of("scale_kernel")
    outcome = rewrite_launch(kernel, FILES, {"BLOCK": 1024, "num_warps": 8}, launch_of(kernel, "src/lib/ops.py", 11))
    after = edited(FILES, outcome)
    assert after["src/lib/kernels.py"] == KERNELS
    assert after["src/lib/ops.py"] == OPS.replace("BLOCK = 128  #", "BLOCK = 1024  #").replace(
        "factor, BLOCK)", "factor, BLOCK, num_warps=8)"
    )
    again = rewrite_launch(kernel, after, {"BLOCK": 1024, "num_warps": 8})
    assert isinstance(again, Refusal)
    assert "nothing to change" in again.reason


def test_a_default_that_another_file_relies_on_is_not_edited():
    own = KERNELS + "\n\ndef scale(x, out, n):\n    scale_kernel[(triton.cdiv(n, 64),)](x, out, n, 2.0)\n"
    ops = OPS.replace("n, BLOCK),)](x, out, n, factor, BLOCK)", "n, 64),)](x, out, n, factor)")
    texts = {"src/lib/kernels.py": own, "src/lib/ops.py": ops}
    kernel = kernel_of("scale_kernel", texts)
    outcome = rewrite_launch(kernel, texts, {"BLOCK": 256}, launch_of(kernel, "src/lib/kernels.py", 23))
    after = edited(texts, outcome)
    assert after["src/lib/ops.py"] == ops
    assert "BLOCK: tl.constexpr = 64" in after["src/lib/kernels.py"]
    assert "scale_kernel[(triton.cdiv(n, 256),)](x, out, n, 2.0, BLOCK=256)" in after["src/lib/kernels.py"]
    alone = rewrite_launch(kernel, {"src/lib/kernels.py": own}, {"BLOCK": 256})
    assert "BLOCK: tl.constexpr = 256" in edited({"src/lib/kernels.py": own}, alone)["src/lib/kernels.py"]


def test_an_autotuner_is_given_its_config_where_the_kernel_is():
    tuned = KERNELS.replace(
        "@triton.jit\ndef scale",
        '@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])\n@triton.jit\ndef scale',
    )
    ops = OPS.replace("n, BLOCK),)]", 'n, META["BLOCK"]),)]').replace(
        "[(triton.cdiv(n, META", "[lambda META: (triton.cdiv(n, META"
    )
    texts = {"src/lib/kernels.py": tuned, "src/lib/ops.py": ops.replace(", factor, BLOCK)", ", factor)")}
    kernel = kernel_of("scale_kernel", texts)
    outcome = rewrite_launch(kernel, texts, {"BLOCK": 512}, launch_of(kernel, "src/lib/ops.py", 11))
    after = edited(texts, outcome)
    assert 'configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 64})]' in after["src/lib/kernels.py"]
    assert after["src/lib/ops.py"] == texts["src/lib/ops.py"]


def rows_task(texts):
    kernel = kernel_of("row_kernel", texts)
    problem = [("n_cols", Scalar(96))]
    launch = launch_of(kernel, "src/lib/ops.py", 18, problem, (100_000, 1, 1), BLOCK=128)
    return Task(kernel, texts, (launch,), (), {"1": Bottleneck("block-too-small", 1.0, "predicted")})


def test_a_structural_rewrite_changes_kernel_and_host_function_together():
    several = next(one for one in REWRITES if one.name == "several-rows")
    task = rows_task(FILES)
    made = next(rewrites(several, task))
    assert {edit.file for edit in made.candidate.edits} == set(FILES)
    after = edited(FILES, made.candidate)
    assert after == dict(made.task.texts)
    assert "row_kernel[(triton.cdiv(n_rows, " in after["src/lib/ops.py"]
    assert "tl.sum(x, axis=1, keep_dims=True)" in after["src/lib/kernels.py"]
    assert after["src/lib/ops.py"].startswith(OPS[: OPS.index("def sum_rows")])
    # The engine goes on from there, in edits of the texts as they were read.
    both = [c for c in RuleEngine().propose(task) if not isinstance(c, Refusal) and len(c.rewrites) > 1]
    assert any(dict(c.rewrites).keys() == {"several-rows", "launch-parameters"} for c in both)
    for candidate in both:
        for text in edited(FILES, candidate).values():
            compile(text, "after", "exec")


def test_a_kernel_that_two_files_launch_keeps_its_signature_and_its_grid():
    other = "from lib.kernels import row_kernel\n\n\ndef rows(x, out):\n    row_kernel[(4,)](x, out, 8, BLOCK=8)\n"
    several = next(one for one in REWRITES if one.name == "several-rows")
    (outcome,) = rewrites(several, rows_task({**FILES, "bench/rows.py": other}))
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "row_kernel is launched in several files: bench/rows.py, src/lib/ops.py."


def test_a_kernel_that_its_own_file_uses_too_keeps_its_signature():
    texts = {**FILES, "src/lib/kernels.py": KERNELS + "\n\nALL = [row_kernel]\n"}
    several = next(one for one in REWRITES if one.name == "several-rows")
    (outcome,) = rewrites(several, rows_task(texts))
    assert isinstance(outcome, Refusal)
    assert "row_kernel is used in another way than being launched at line 21" in outcome.reason


def test_a_version_is_loaded_with_the_edits_of_every_file():
    subject = Subject("/w", "src/lib/kernels.py", KERNELS, kernel_of("row_kernel"), (), (("src/lib/ops.py", OPS),))
    changed = {**FILES, "src/lib/ops.py": OPS.replace("128", "256")}
    edits = edits_between("src/lib/ops.py", OPS, changed["src/lib/ops.py"])
    assert subject.texts(edits) == changed
    assert dict(subject.program(KERNELS + "#\n", edits).overlays) == {**changed, "src/lib/kernels.py": KERNELS + "#\n"}
    assert dict(subject.program().overlays) == FILES
    with pytest.raises(KeyError):
        subject.texts([Edit("src/lib/none.py", 0, 0, "")])
    assert dataclasses.replace(subject, others=()).texts() == {"src/lib/kernels.py": KERNELS}


def test_both_files_are_written_or_none(tmp_path):
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    several = next(one for one in REWRITES if one.name == "several-rows")
    edits = next(rewrites(several, rows_task(FILES))).candidate.edits
    (tmp_path / "src/lib/ops.py").write_text(OPS + "# typed meanwhile\n")
    with pytest.raises(ChangedOnDisk):
        apply_to_disk(tmp_path, edits, FILES)
    assert (tmp_path / "src/lib/kernels.py").read_text() == KERNELS
    (tmp_path / "src/lib/ops.py").write_text(OPS)
    assert apply_to_disk(tmp_path, edits, FILES) == ("src/lib/kernels.py", "src/lib/ops.py")
    now = {file: (tmp_path / file).read_text() for file in FILES}
    assert {file for file in FILES if now[file] != FILES[file]} == set(FILES)
