"""What structural rewrites are built from: minimal edits, shapes of expressions, calls on lines that grew too long."""

import dataclasses
import itertools
import json

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_structural_golden import GOLDEN, task_of

from tritonforge.analysis import analyze
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.source import apply_edits
from tritonforge.rewrite import Refusal, RuleEngine
from tritonforge.rewrite.protocol import Task, Trial
from tritonforge.rewrite.rules.launch_values import Refused
from tritonforge.rewrite.structural import REWRITES, Change, NothingHere, rewrites
from tritonforge.rewrite.structural.edits import minimal_edits
from tritonforge.rewrite.structural.flow import broadcast, flow_of
from tritonforge.rewrite.structural.kernel_text import code, functions_of
from tritonforge.rewrite.structural.layout import fitted

LINES = st.lists(st.sampled_from(["a = 1\n", "b = 2\r\n", "c\n", "\n", "x = f(a)\n", "é = 'ü'\n", "end"]), max_size=8)


@settings(max_examples=200, deadline=None)
@given(LINES.map("".join), LINES.map("".join))
def test_minimal_edits_lead_from_one_text_to_the_other(before, after):
    edits = minimal_edits("f.py", before, after)
    assert apply_edits(before, edits) == after
    assert all(before[e.start : e.end] != e.text for e in edits)


def test_an_edit_within_a_line_touches_nothing_else_of_it():
    (edit,) = minimal_edits("f.py", "x = load(a)  # why\n", "x = load(a, mask=m)  # why\n")
    assert edit.text == ", mask=m"
    assert edit.start == edit.end == len("x = load(a")


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (("M", "1"), ("N",), ("M", "N")),
        ((), ("N",), ("N",)),
        (("M", "1"), ("1", "N"), ("M", "N")),
        (("M",), ("N",), None),
        (None, (), None),
    ],
)
def test_shapes_broadcast_as_triton_does(a, b, both):
    assert broadcast(a, b) == broadcast(b, a) == both


KERNEL = """
import triton
import triton.language as tl

@triton.jit
def k(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, BLOCK)
    m = float("-inf")
    for start in range(0, n, BLOCK):
        v = tl.load(x + row * n + start + i, mask=start + i < n, other=0.0)
        m = tl.maximum(m, tl.max(v, axis=0))
        half = v[None, :] * i[:, None]
    odd = helper(v)
    tl.store(o + row, m)
"""


def test_flow_knows_shapes_programs_and_loops():
    module = cst.parse_module(KERNEL)
    (function,) = functions_of(module)
    (kernel,) = analyze(KERNEL, "k.py").kernels
    flow = flow_of(function, kernel, "tl")
    known = {code(n.targets[0].target): flow.of(n.value) for n in flow.statements.values() if isinstance(n, cst.Assign)}
    assert (known["row"].shape, known["row"].programs) == ((), {1})
    assert (known["v"].shape, known["v"].programs, known["v"].steps) == (("BLOCK",), {1}, {"start"})
    assert known["half"].shape == ("BLOCK", "BLOCK")
    assert known["m"].shape == ()
    assert known["odd"].shape is None
    assert [code(c) for c in flow.unknown] == ["helper(v)"]
    (meets,) = (m for m in flow.meets.values() if "m" in m)
    before, inside = meets["m"]
    assert (before.programs, inside.programs) == (set(), {1})


def test_a_call_is_spread_only_when_the_edit_made_it_too_long():
    short = "def f():\n    kernel[grid](a, b)\n"
    words = ", ".join(f"argument_{i}" for i in range(9))
    long = f"def f():\n    kernel[grid](a, b, {words})\n"
    assert len(long.splitlines()[1]) > 120
    after = fitted(short, long)
    assert max(map(len, after.splitlines())) <= 120
    assert after.replace("\n", "").replace(" ", "") == long.replace("\n", "").replace(" ", "")
    assert fitted(long, long) == long


def _offered(case="dot_matmul"):
    wanted = json.loads((GOLDEN / case / "task.json").read_text())
    task = task_of((GOLDEN / case / "before.py").read_text(), wanted)
    for kind in ("tensor-core", "register-spill", "dram-bandwidth", "tile-too-small"):
        now = Task(task.kernel, task.texts, task.launches, (), {"1": Bottleneck(kind, 1.0, "predicted")})
        for candidate in RuleEngine().propose(now):
            if not isinstance(candidate, Refusal):
                yield task.texts["before.py"], candidate


def test_nothing_that_fails_to_compile_or_was_measured_as_useless_is_offered():
    """`maxnreg` beside wgmma, warp specialisation, dropped masks and grouped program order."""
    seen = 0
    for before, candidate in _offered():
        after = apply_edits(before, candidate.edits)
        assert "maxnreg" not in after
        assert "warp_specialize" not in after
        assert "num_ctas" not in after
        assert after.count("mask=") >= before.count("mask=")
        assert "GROUP" not in after
        assert after.count("program_id(0)") == before.count("program_id(0)")
        seen += 1
    assert seen > 40


class _Wide:
    """A rewrite whose grid no GPU takes."""

    name = "wide"
    treats = frozenset()
    classes = frozenset()

    def changes(self, text):
        yield Change("wide", (), grid=(1, 65_536, 1))


def test_a_grid_beyond_what_a_gpu_takes_along_y_is_refused():
    wanted = json.loads((GOLDEN / "rows_norm" / "task.json").read_text())
    task = task_of((GOLDEN / "rows_norm" / "before.py").read_text(), wanted)
    (refusal,) = rewrites(_Wide(), task)
    assert isinstance(refusal, Refusal)
    assert "65535 programs along y and z" in refusal.reason


def test_a_lock_becomes_partial_sums_in_two_stages():
    wanted = json.loads((GOLDEN / "lock_total" / "task.json").read_text())
    text = (GOLDEN / "lock_total" / "before.py").read_text().replace("out = start.clone()", "out = torch.zeros(1)")
    named = {rewrite.name: rewrite for rewrite in REWRITES}
    unlocked = next(rewrites(named["unlocked-sums"], task_of(text, wanted)))
    staged = next(rewrites(named["two-stages"], unlocked.task)).task.texts["before.py"]
    assert "tl.store(total_ptr + tl.program_id(0), part)" in staged
    assert "out = partial_out.sum(dim=0, keepdim=True, dtype=partial_out.dtype)" in staged
    assert "atomic" not in staged


def test_what_another_rewrite_finishes_is_offered_with_it_and_without():
    """Sums added up per program, then partial sums: the second alone would leave the first nothing to do."""
    wanted = json.loads((GOLDEN / "private_mean" / "task.json").read_text())
    text = (GOLDEN / "private_mean" / "before.py").read_text()
    made_first = text.replace("    n = x.numel()\n", "").replace("    out =", "    n = x.numel()\n    out =")
    task = task_of(made_first, wanted)
    limits = {task.launches[0].id: Bottleneck("atomic-contention", 1.0, "predicted")}
    proposed = list(RuleEngine().propose(dataclasses.replace(task, bottlenecks=limits)))
    made = [[name for name, _ in one.rewrites] for one in proposed if not isinstance(one, Refusal)]
    assert ["private-sums"] in made
    assert ["private-sums", "two-stages"] in made
    staged = next(one for one in proposed if [name for name, _ in one.rewrites] == ["private-sums", "two-stages"])
    assert "atomic" not in apply_edits(task.texts["before.py"], staged.edits)


def test_structure_is_tried_with_the_launch_parameters_of_the_fastest_version():
    """Each by itself may lose to new tiles, and gain on top of them."""
    wanted = json.loads((GOLDEN / "causal_min" / "task.json").read_text())
    text = (GOLDEN / "causal_min" / "before.py").read_text()
    task = dataclasses.replace(task_of(text, wanted), bottlenecks={"1": Bottleneck("tensor-core", 1.0, "measured")})

    def proposed(*trials):
        return (c for c in RuleEngine().propose(task, trials) if not isinstance(c, Refusal))

    best = next(c for c in proposed() if [n for n, _ in c.rewrites] == ["launch-parameters"])
    values = best.rewrites
    tiles = "BM, BN = " + ", ".join(v for n, v in values[0][1] if n in {"BM", "BN"})
    trials = [Trial(best, None, {"1": 100.0}, accepted=True)]
    split = next(c for c in proposed(*trials) if c.rewrites == (("causal-split", ()), *values))
    assert tiles != "BM, BN = 64, 16"
    assert tiles in apply_edits(text, split.edits)
    # Where structure was the last step, more of it goes on top with the same launch parameters.
    trials.append(Trial(split, None, {"1": 90.0}, accepted=True))
    both = next(c for c in proposed(*trials) if {"causal-split", "exp2-scale"} <= {n for n, _ in c.rewrites})
    assert both.rewrites[-1:] == values
    assert tiles in apply_edits(text, both.edits)


def test_odd_sources_are_declined_and_never_raise():
    sources = [
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    pass\n",
        "import triton\nfrom triton.language import load\n@triton.jit\ndef k(x, n):\n    for i in range(n):\n        load(x + i)\n\ndef f(x):\n    k[(1,)](x, 3)\n",
        "import triton\nimport triton.language as tl\nk = triton.jit(lambda x: tl.store(x, 1))\n",
        "import triton, triton.language as tl\n@triton.jit\ndef k(x, *, n: tl.constexpr):\n    tl.atomic_add(x, tl.sum(tl.arange(0, n)))\n\nclass A:\n    def f(self, x):\n        k[lambda m: (x.shape[0],)](x, **{'n': 4})\n",
    ]
    for text in sources:
        for kernel in analyze(text, "before.py").kernels:
            task = task_of(text, {"kernel": kernel.name, "values": {"n": 4}, "grid": [4096]})
            for rewrite in REWRITES:
                for outcome in rewrites(rewrite, task):
                    assert isinstance(outcome, Refusal), (rewrite.name, text)
                    assert outcome.reason.endswith(".")


def test_that_there_is_nothing_to_rewrite_is_not_told():
    wanted = json.loads((GOLDEN / "loops_ahead" / "task.json").read_text())
    task = task_of((GOLDEN / "loops_ahead" / "before.py").read_text(), wanted)
    quiet = [r.name for r in REWRITES for o in rewrites(r, task) if isinstance(o, NothingHere)]
    assert "two-stages" in quiet
    said = [o.rewrite for o in RuleEngine().propose(task) if isinstance(o, Refusal)]
    assert not set(said) & set(quiet)
    assert issubclass(NothingHere, Refusal)
    assert issubclass(Refused, Exception)


def test_on_kernels_of_every_kind_rewrites_decline_or_make_python():
    """The kernels of the gate's proof, which were written without a thought of these rewrites."""
    folder = GOLDEN.parents[2] / "benchmarks" / "proof" / "kernels"
    made = set()
    for file in sorted(folder.glob("*.py")):
        text = file.read_text()
        for kernel in analyze(text, "before.py").kernels:
            sizes = {p.name: 64 if p.name in kernel.tiles else 1000 for p in kernel.parameters if p.role != "pointer"}
            task = task_of(text, {"kernel": kernel.name, "values": sizes, "grid": [4096]})
            for rewrite in REWRITES:
                # The first way of making it: others differ in numbers.
                for outcome in itertools.islice(rewrites(rewrite, task), 1):
                    if not isinstance(outcome, Refusal):
                        compile(outcome.task.texts["before.py"], file.name, "exec")
                        made.add((rewrite.name, file.stem))
    assert {("whole-row", "layer_norm"), ("several-rows", "rms_norm"), ("exp2-scale", "causal_attention")} <= made
