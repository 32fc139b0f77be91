"""Structural rewrites: golden files before and after, and what holds for every one of them.

A case is a folder with `before.py`, `task.json` and, unless it is refused, `after.py`. `python
tests/rewrite/test_structural_golden.py CASE…` writes `after.py` anew, to be read before it is committed.
"""

import ast
import itertools
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.provenance import Evidence
from tritonforge.domain.source import Range, apply_edits
from tritonforge.rewrite import Refusal, RuleEngine
from tritonforge.rewrite.elsewhere import with_all_sites
from tritonforge.rewrite.protocol import Task
from tritonforge.rewrite.structural import REWRITES, rewrites

GOLDEN = Path(__file__).parent.parent / "golden" / "structural"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/task.json"))
MADE = [case for case in CASES if (GOLDEN / case / "after.py").exists()]
BY_NAME = {rewrite.name: rewrite for rewrite in REWRITES}


def task_of(text, wanted, file="before.py"):
    """Return the task that a `task.json` describes: kernel, values of the recorded launch, its grid; `more` launches."""
    kernel = next(k for k in analyze(text, file).kernels if k.name == wanted["kernel"])
    values = {"num_warps": 4, "num_stages": 3} | wanted.get("values", {})
    tensors = {
        name: Tensor(tuple(shape), tuple(strides), dtype, 16)
        for name, (shape, strides, dtype) in wanted.get("tensors", {}).items()
    }
    options = {n: v for n, v in values.items() if n in {"num_warps", "num_stages", "num_ctas", "maxnreg"}}
    constexprs = {n: v for n, v in values.items() if n in kernel.tiles}
    rest = {n: v for n, v in values.items() if n not in options and n not in constexprs}
    known = [p.name for p in kernel.parameters]
    problem = tuple((n, tensors.get(n) or Scalar(rest[n])) for n in known if n in tensors or n in rest)
    grid = (*wanted.get("grid", (1,)), 1, 1)[:3]
    config = Config(
        tuple((n, Scalar(v)) for n, v in constexprs.items()), tuple((n, Scalar(v)) for n, v in options.items()), grid
    )
    site = kernel.launch_sites[0] if kernel.launch_sites else None
    line, host = (site.range.start.line, site.host or "") if site else (1, "")
    launch = Launch("1", file, kernel.name, Problem(problem), config, CallSite(file, line, host))
    findings = tuple(_finding(file, one) for one in wanted.get("findings", ()))
    others = [task_of(text, wanted | {"more": []} | one, file).launches[0] for one in wanted.get("more", ())]
    launches = (launch, *(replace(one, id=str(i)) for i, one in enumerate(others, start=2)))
    return Task(kernel, {file: text}, launches, findings, arch=wanted.get("arch", "sm_90"))


def _finding(file, one):
    evidence = {"reused": Evidence(one["reused"], "", "source")}
    return Finding(
        one["code"], "", "information", file, Range.of(one["line"], 1, one["line"], 2), "", "derived", evidence
    )


@cache
def outcomes_of(case):
    folder = GOLDEN / case
    wanted = json.loads((folder / "task.json").read_text())
    text = (folder / "before.py").read_bytes().decode()
    return wanted, text, list(rewrites(BY_NAME[wanted["rewrite"]], task_of(text, wanted)))


def cut(text, kernel):
    """Return the two files of a kernel that is imported by its host functions: those of `text`, one after the other."""
    lines, parts = text.splitlines(), {True: [], False: []}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            first = min(n.lineno for n in (node, *node.decorator_list)) - 1
            while lines[first - 1].startswith("#"):
                first -= 1
            parts[bool(node.decorator_list)].append("\n".join(lines[first : node.end_lineno]))
    heads = {
        "kernels.py": "import triton\nimport triton.language as tl",
        "host.py": f"import torch\nimport triton\n\nfrom kernels import {kernel}",
    }
    return {file: "\n\n\n".join([heads[file], *parts[file == "kernels.py"]]) + "\n" for file in heads}


@pytest.mark.parametrize("case", ["chunked_gated", "persistent_matmul", "split_matmul"])
def test_it_makes_the_same_of_a_kernel_that_another_file_imports(case):
    wanted, text, _ = outcomes_of(case)
    texts = cut(text, wanted["kernel"])
    task = task_of(texts["kernels.py"], wanted, "kernels.py")
    kernel = with_all_sites(task.kernel, texts)
    site = CallSite("host.py", kernel.launch_sites[0].range.start.line, kernel.launch_sites[0].host)
    task = replace(task, kernel=kernel, texts=texts, launches=(replace(task.launches[0], call_site=site),))
    made = next(rewrites(BY_NAME[wanted["rewrite"]], task))
    assert not isinstance(made, Refusal), made
    assert made.task.texts == cut((GOLDEN / case / "after.py").read_text(), wanted["kernel"])


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    wanted, text, outcomes = outcomes_of(case)
    if "refusal" in wanted:
        assert [isinstance(o, Refusal) for o in outcomes] == [True], outcomes
        assert wanted["refusal"] in outcomes[0].reason
        return
    assert not any(isinstance(o, Refusal) for o in outcomes), outcomes
    chosen = outcomes[wanted.get("choose", 0)]
    after = apply_edits(text, chosen.candidate.edits)
    assert after == chosen.task.texts["before.py"]
    assert after == (GOLDEN / case / "after.py").read_bytes().decode()


@pytest.mark.parametrize("case", MADE)
def test_made_once_it_is_not_made_again(case):
    wanted, _, outcomes = outcomes_of(case)
    chosen = outcomes[wanted.get("choose", 0)]
    again = list(rewrites(BY_NAME[wanted["rewrite"]], chosen.task))
    assert [isinstance(o, Refusal) for o in again] == [True], again


FIRST = {json.loads((GOLDEN / c / "task.json").read_text())["rewrite"]: c for c in reversed(MADE)}


@pytest.mark.parametrize("case", sorted(FIRST.values()))
def test_what_a_rewrite_makes_can_be_rewritten_on(case):
    """Every other rewrite either declines or gives a text that is Python and still has the kernel."""
    wanted, _, outcomes = outcomes_of(case)
    chosen = outcomes[wanted.get("choose", 0)]
    for other in REWRITES:
        # The first way of making it: others differ in numbers.
        for outcome in itertools.islice(rewrites(other, chosen.task), 1):
            if not isinstance(outcome, Refusal):
                compile(outcome.task.texts["before.py"], "after", "exec")
                assert outcome.task.kernel.name == wanted["kernel"]


@pytest.mark.parametrize("case", sorted(FIRST.values()))
def test_the_engine_goes_on_from_it_in_edits_of_the_text_as_it_was_read(case):
    wanted, text, outcomes = outcomes_of(case)
    chosen = outcomes[wanted.get("choose", 0)]
    task = task_of(text, wanted)
    rewrite = BY_NAME[wanted["rewrite"]]
    kind = min(rewrite.classes, default=None)
    kinds = {"1": Bottleneck(kind, 1.0, "predicted")} if kind else {}
    found = () if kinds else (_finding("before.py", {"code": min(rewrite.treats), "line": 1, "reused": ""}),)
    task = replace(task, findings=task.findings or found, bottlenecks=kinds)
    made = [c for c in RuleEngine().propose(task) if not isinstance(c, Refusal)]
    texts = [apply_edits(text, c.edits) for c in made]
    assert chosen.task.texts["before.py"] in texts
    assert len(set(texts)) == len(texts)
    assert any({wanted["rewrite"], "launch-parameters"} <= {n for n, _ in c.rewrites} for c in made) or not any(
        "launch-parameters" in dict(c.rewrites) for c in made
    )
    for after in texts:
        compile(after, "after", "exec")


TOGETHER = {
    # Rows alone leave narrow accesses, pairs alone leave tiny programs: the search might keep neither.
    ("several-rows", "pairs"): ("pairs_rotary", "block-too-small", "(BLOCK_ROWS, BLOCK, 2)"),
    # Tiles alone leave most of the device idle, parts alone leave one narrow load a round.
    ("row-tiles", "split-loop"): ("tiles_columns", "grid-too-small", "tl.store(partial_ptr + slot * BLOCK"),
    # Products in fp32 take longer than the loads that a group saves.
    ("grouped-heads", "split-loop", "narrow-operands"): ("heads_decode", "latency", " + weighted_sum(p, v)"),
    # Tensor cores take fp32 rounded to tf32 straight from what a descriptor copied, where the contraction is contiguous.
    ("k-major", "tensor-descriptors"): ("kmajor_plain", "tensor-core", "b = b_desc.load([tl.program_id(1) * BLOCK_N, "),
}
"""Rewrites that are worth more than one after the other → the golden case, what limits it, what both make of it."""


@pytest.mark.parametrize("names", TOGETHER)
def test_what_pays_together_is_proposed_as_one(names):
    case, kind, made_of_both = TOGETHER[names]
    wanted, text, _ = outcomes_of(case)
    task = replace(task_of(text, wanted), bottlenecks={"1": Bottleneck(kind, 1.0, "predicted")})
    made = (c for c in RuleEngine().propose(task) if not isinstance(c, Refusal))
    both = next(c for c in made if tuple(n for n, _ in c.rewrites) == names)
    assert made_of_both in apply_edits(text, both.edits)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        task, before, found = outcomes_of(name)
        if isinstance(found[0], Refusal):
            sys.stdout.write(f"{name} refuses: {found[0].reason}\n")
            continue
        one = found[task.get("choose", 0)]
        (GOLDEN / name / "after.py").write_bytes(apply_edits(before, one.candidate.edits).encode())
        sys.stdout.write(f"{name} written\n")


def test_fp8_that_is_converted_before_the_dot_is_summed_up_in_it():
    folder = GOLDEN / "dot_refused_fp8"
    wanted, text = json.loads((folder / "task.json").read_text()), (folder / "before.py").read_text()
    converted = text.replace("tl.dot(a, b.T)", "tl.dot(a.to(tl.float16), b.to(tl.float16).T)")
    (outcome,) = rewrites(BY_NAME["dot-accumulator"], task_of(converted, wanted))
    assert not isinstance(outcome, Refusal), outcome
    assert "acc = tl.dot(a.to(tl.float16), b.to(tl.float16).T, acc)" in outcome.task.texts["before.py"]
