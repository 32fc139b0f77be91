"""A suggestion's values left to `@triton.autotune`: written where that is safe, refused with a reason elsewhere."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import Failure
from tritonforge.domain.source import apply_edits
from tritonforge.jobs import JobError
from tritonforge.optimize import shapes
from tritonforge.optimize.exploring import explore
from tritonforge.optimize.loop import _best_config
from tritonforge.optimize.search import Attempt, Search
from tritonforge.optimize.tasks import task_of
from tritonforge.profiling.measuring import Samples
from tritonforge.rewrite import RuleEngine, rewrite_launch
from tritonforge.rewrite.protocol import Refusal
from tritonforge.rewrite.rules.autotune_key import wider_key
from tritonforge.rewrite.rules.autotuned import autotuned, told_apart
from tritonforge.workload.subject import Subject

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def run(x):
    o = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, o, x.numel(), BLOCK=256, num_warps=4)
    return o
"""


def form(text, wanted, before, file="k.py"):
    kernel = analyze(text, file).kernels[0]
    site = kernel.launch_sites[0] if kernel.launch_sites else None
    constexprs = tuple((k, Scalar(v)) for k, v in before.items() if not k.startswith("num_"))
    options = tuple((k, Scalar(v)) for k, v in before.items() if k.startswith("num_"))
    launch = Launch(
        "l", file, kernel.name, Problem(()), Config(constexprs, options, (1, 1, 1)),
        CallSite(file, site.range.start.line if site else 1, ""),
    )  # fmt: skip
    return autotuned(kernel, text, wanted, launch)


def test_old_and_new_values_become_configs_and_the_launch_gives_none_of_them():
    found = form(SCALE, {"BLOCK": 1024, "num_warps": 8}, {"BLOCK": 256, "num_warps": 4})
    assert isinstance(found, Candidate)
    text = apply_edits(SCALE, found.edits)
    configs = [
        '        triton.Config({"BLOCK": 1024}, num_warps=8),',
        '        triton.Config({"BLOCK": 256}, num_warps=4),',
    ]
    decorator = ["@triton.autotune(", "    configs=[", *configs, "    ],", '    key=["n"],', ")", "@triton.jit"]
    launch = '    scale[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](x, o, x.numel())'
    expected = SCALE.replace("@triton.jit", "\n".join(decorator))
    lines = [launch if "scale[" in line else line for line in expected.split("\n")]
    assert text == "\n".join(lines)
    (kernel,) = analyze(text, "k.py").kernels
    assert [value.source for _, value in kernel.launch_sites[0].constexprs] == ["autotune"]


def test_an_autotuner_tells_launches_apart_by_its_key_and_by_the_types_of_tensors():
    def launch(rows, n, dtype="float16"):
        arguments = (("x_ptr", Tensor((rows, n), (n, 1), dtype)), ("n", Scalar(n)))
        return Launch("l", "k.py", "scale", Problem(arguments), Config((), (), (rows, 1, 1)), CallSite("k.py", 1, ""))

    kernel = analyze(SCALE, "k.py").kernels[0]
    tuned = analyze(SCALE.replace("@triton.jit", "@triton.autotune([], key=['m'])\n@triton.jit"), "k.py").kernels[0]
    assert told_apart(kernel, launch(4, 100), launch(4, 200))
    assert told_apart(kernel, launch(4, 100), launch(4, 100, "float32"))
    assert not told_apart(kernel, launch(4, 100), launch(400, 100)), "the number of rows is in the grid alone"
    assert not told_apart(tuned, launch(4, 100), launch(4, 200)), "its own key does not have n"


def test_a_grid_in_a_variable_of_its_own_reads_the_chosen_tiles():
    text = (EXAMPLES / "matmul.py").read_text()
    tiles = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}
    found = form(text, tiles, dict.fromkeys(tiles, 32))
    assert isinstance(found, Candidate)
    after = apply_edits(text, found.edits)
    assert 'grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]), triton.cdiv(N, META["BLOCK_N"]))' in after
    assert "BLOCK_M=32" not in after
    compile(after, "matmul.py", "exec")


def test_line_ends_and_everything_else_stay():
    text = SCALE.replace("\n", "\r\n") + "# é🚀\r\n"
    found = form(text, {"BLOCK": 512}, {"BLOCK": 256})
    assert isinstance(found, Candidate)
    after = apply_edits(text, found.edits)
    assert "\n" not in after.replace("\r\n", "")
    assert after.endswith("# é🚀\r\n")
    assert ", num_warps=4)" in after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SCALE.replace("@triton.jit", "@triton.autotune([triton.Config({})], key=[])\n@triton.jit"), "tuned already"),
        (SCALE.replace("tl.store(o_ptr", "tl.store(x_ptr"), "changes what it reads"),
        (SCALE.replace("tl.store(", "tl.atomic_add("), "changes what it reads"),
        (SCALE + "\n\ndef other(x):\n    scale[(9,)](x, x, 9, BLOCK=256)\n", "exactly one place"),
        (SCALE.replace("BLOCK=256", "BLOCK=B").replace("    o =", "    B = 256\n    print(B)\n    o ="), ""),
        (SCALE.replace("x.numel(), BLOCK=256", "x.numel(), 256"), ""),
        (SCALE.partition("def run")[0], "exactly one place"),
    ],
)  # fmt: skip
def test_what_a_tuner_cannot_choose_safely_is_refused(text, reason):
    found = form(text, {"BLOCK": 1024}, {"BLOCK": 256})
    assert isinstance(found, Refusal)
    assert reason in found.reason


TUNED = SCALE.replace(
    "@triton.jit",
    '@triton.autotune(\n    configs=[\n        triton.Config({"BLOCK": 64}),  # small\n'
    '        triton.Config({"BLOCK": 512}, num_warps=8),\n    ],\n    key=["n"],\n)\n@triton.jit',
).replace("x, o, x.numel(), BLOCK=256, num_warps=4", "x, o, x.numel()")


def _launch(n, **more):
    arguments = tuple((name, Scalar(value)) for name, value in {"n": n, **more}.items())
    return Launch("l", "k.py", "scale", Problem(arguments), Config((), (), (1, 1, 1)), CallSite("k.py", 1, ""))


KEYED = TUNED.replace("def scale(x_ptr, o_ptr, n,", "def scale(x_ptr, o_ptr, n, rows, stride,").replace(
    "tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)",
    "tl.store(o_ptr + i, 2 * tl.load(x_ptr + i * stride, mask=i < rows), mask=i < n)",
)


def test_a_key_that_takes_different_launches_for_one_gets_the_size_that_tells_them_apart():
    (kernel,) = analyze(KEYED, "k.py").kernels
    small, large = _launch(64, rows=1, stride=64), _launch(64, rows=4096, stride=128)
    text, names = wider_key(kernel, KEYED, [(small, "a"), (large, "b")])
    assert names == ("rows",), "a size, where a stride would do as well"
    assert text == KEYED.replace('key=["n"]', 'key=["n", "rows"]')
    (after,) = analyze(text, "k.py").kernels
    assert told_apart(after, small, large)
    third = _launch(64, rows=1, stride=256)
    text, names = wider_key(kernel, KEYED.replace('["n"]', "['n']"), [(small, "a"), (large, "b"), (third, "c")])
    assert names == ("stride",)
    assert "key=['n', 'stride']" in text


def test_winners_that_an_autotuner_takes_for_one_launch_are_listed_behind_a_wider_key():
    (kernel,) = analyze(KEYED, "k.py").kernels
    search = Search(Subject("/w", "k.py", KEYED, kernel), None, None, [], 1.0, 0.0, lambda _: None)
    launches = [SimpleNamespace(launch=_launch(64, rows=rows, stride=64)) for rows in (1, 4096)]
    search.baseline = Attempt(Candidate("original", (), ()), KEYED, tuple(launches))
    winners = [
        Attempt(Candidate("", (), (("launch-parameters", (("BLOCK", str(block)),)),)), "") for block in (32, 128)
    ]
    made = shapes._one_source(search, winners, winners)
    assert made.title == "tune for each rows; autotune over BLOCK=32 | BLOCK=128"
    (after,) = analyze(apply_edits(KEYED, made.edits), "k.py").kernels
    assert after.autotune.key == ("n", "rows")
    assert sorted(int(dict(c.constexprs)["BLOCK"]) for c in after.autotune.configs) == [32, 64, 128, 512]
    assert search.notes == []


@pytest.mark.parametrize(
    ("text", "found", "reason"),
    [
        (KEYED, [(_launch(64), "a"), (_launch(65), "b")], "tells the launches apart already"),
        (KEYED, [(_launch(64), "a"), (_launch(64), "b")], "no number that is passed to the kernel"),
        (KEYED.replace('["n"]', "KEYS"), [(_launch(64, rows=1), "a"), (_launch(64, rows=2), "b")], "not written out"),
        (SCALE, [(_launch(64), "a"), (_launch(65), "b")], "not autotuned in a decorator"),
    ],
)
def test_a_key_is_left_alone(text, found, reason):
    outcome = wider_key(analyze(text, "k.py").kernels[0], text, found)
    assert isinstance(outcome, Refusal)
    assert reason in outcome.reason


def test_without_measuring_a_rewrite_is_judged_with_the_configuration_that_the_original_is_judged_by():
    """Else the original's own tuning would be credited to it; what sets launch parameters brings its own."""
    (kernel,) = analyze(TUNED, "k.py").kernels
    search = Search(Subject("/w", "k.py", TUNED, kernel), None, None, [], 1.0, 0.0, lambda _: None)
    plain = Attempt(Candidate("floats", (), (("floats", ()),)), TUNED)
    tuned = Attempt(Candidate("BLOCK=128", (), (("launch-parameters", (("BLOCK", "128"),)),)), TUNED)
    assert search.turn_of(plain) == 0
    search.turn = 1
    assert (search.turn_of(plain), search.turn_of(tuned)) == (1, 0)


@pytest.mark.parametrize(
    ("listed", "known", "turns", "best"),
    [
        (
            "[triton.Config({'BLOCK': b}, num_warps=w) for b in BLOCKS for w in (1, 2, 4, 8)]",
            28,
            [2, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27],
            15,
        ),
        ("all_of_them()", 0, list(range(1, 12)), 11),
    ],
)
def test_without_measuring_the_original_is_judged_by_the_best_of_a_computed_list(
    monkeypatch, listed, known, turns, best
):
    start, end = TUNED.index("["), TUNED.index("],") + 1
    blocks = "BLOCKS = [32, 64, 128, 256, 512] if FEW else [1024, 2048]\n\n\n@triton.autotune"
    text = f"{TUNED[:start]}{listed}{TUNED[end:]}".replace("@triton.autotune", blocks)
    (kernel,) = analyze(text, "k.py").kernels
    assert len(kernel.autotune.configs) == known
    session = SimpleNamespace(measures=False, worker=SimpleNamespace(hello=SimpleNamespace(lanes=2)))
    search = Search(Subject("/w", "k.py", text, kernel), session, None, [], 1.0, 0.0, lambda _: None)

    def assessed(turn):
        config = Config((("BLOCK", Scalar(turn)),), (("num_warps", Scalar(4)),), (1, 1, 1))
        launch = SimpleNamespace(count=1, rank=1, config=config)
        prediction = SimpleNamespace(time_us=abs(turn - 17) + 1.0)
        error = "it needs too much" if turn == 17 else None
        return (SimpleNamespace(launch=launch, prediction=prediction, compilation=SimpleNamespace(error=error)),)

    asked = []

    async def assess(_program, _kernel, turn):
        asked.append(turn)
        if turn == 20:
            raise JobError(Failure("compile-error", "it does not compile"))
        return assessed(turn)

    monkeypatch.setattr(search, "assess", assess)
    search.baseline = Attempt(Candidate("original", (), ()), text, assessed(0))
    asyncio.run(_best_config(search))
    assert asked == turns
    assert search.turn == best, "one does not compile, another does not fit"
    said = f"The original is judged by the best of its configs as predicted: BLOCK={best}, num_warps=4."
    assert search.notes == [said]


def test_where_nothing_can_be_tried_it_is_said_what_was_looked_at():
    text = TUNED.replace("configs=[", "configs=list_of()[")
    (kernel,) = analyze(text, "k.py").kernels
    session = SimpleNamespace(measures=False, arch="sm_90", worker=SimpleNamespace(hello=SimpleNamespace(lanes=2)))
    search = Search(Subject("/w", "k.py", text, kernel), session, None, [RuleEngine()], 60.0, 0.0, lambda _: None)
    config = Config((("BLOCK", Scalar(64)),), (("num_warps", Scalar(4)), ("num_stages", Scalar(3))), (4096, 1, 1))
    launch = Launch("l", "k.py", "scale", Problem(()), config, CallSite("k.py", 1, "run"))
    search.baseline = Attempt(Candidate("original", (), ()), text, (_assessed(launch),))
    found = asyncio.run(explore(search))
    assert found.ended == "there is nothing to try"
    assert any("already autotuned: its list of configs is computed" in one for one in search.refusals)
    (note,) = search.notes
    assert re.match(
        r"\d+ structural rewrites were looked at beside the launch parameters, and none can be made of", note
    )


def test_with_a_gpu_what_an_autotuner_chose_is_what_there_is_to_improve_on():
    (kernel,) = analyze(TUNED, "k.py").kernels
    session = SimpleNamespace(measures=True, arch="sm_90")
    search = Search(Subject("/w", "k.py", TUNED, kernel), session, None, [], 60.0, 0.0, lambda _: None)
    first = Config((("BLOCK", Scalar(64)),), (("num_warps", Scalar(4)),), (64, 1, 1))
    launch = Launch("l", "k.py", "scale", Problem(()), first, CallSite("k.py", 1, "run"))
    made = RecordedLaunch(
        "k.py", "scale", 14, (), (("BLOCK", Scalar(512)),), (("num_warps", Scalar(8)),), (8, 1, 1),
        CallSite("k.py", 1, "run"), autotuned=True,
    )  # fmt: skip
    for recorded, wanted in ((made, (512, 8)), (replace(made, autotuned=False), (64, 64))):
        search.baseline = Attempt(Candidate("original", (), ()), TUNED, (_assessed(launch),))
        with mock.patch("tritonforge.optimize.search.with_time", lambda one, *_: one):
            search.baseline.settle(Samples({"another id": (10.0, 11.0)}, made=(recorded,)), None)
        (seen,) = task_of(search, search.baseline).launches
        assert (dict(seen.config.constexprs)["BLOCK"].value, seen.config.grid[0], seen.id) == (*wanted, "l")


def _assessed(launch):
    return SimpleNamespace(
        launch=launch, bottleneck=None, roofline=None, assessment=None, case=SimpleNamespace(time_us=10.0),
        compilation=SimpleNamespace(error=None, resources=None), prediction=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("tl.atomic_add(o_ptr + i, 1.0, mask=i < n)", "it adds to o_ptr"),
        ("tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)", "it adds to x_ptr"),
    ],
)
def test_a_kernel_whose_runs_add_up_is_given_no_second_config(body, reason):
    text = TUNED.replace('        triton.Config({"BLOCK": 512}, num_warps=8),\n', "")
    text = text.replace("tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)", body)
    (kernel,) = analyze(text, "k.py").kernels
    outcome = rewrite_launch(kernel, {"k.py": text}, {"BLOCK": 1024})
    assert isinstance(outcome, Refusal)
    assert reason in outcome.reason
    restored = text.replace('key=["n"]', 'key=["n"], restore_value=["o_ptr", "x_ptr"]')
    (kernel,) = analyze(restored, "k.py").kernels
    assert isinstance(rewrite_launch(kernel, {"k.py": restored}, {"BLOCK": 1024}), Candidate)
