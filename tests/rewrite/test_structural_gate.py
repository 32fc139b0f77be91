"""What structural rewrites make passes the correctness gate, without a GPU: one golden result of each rewrite."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.jobs.session import open_session
from tritonforge.rewrite.structural import REWRITES
from tritonforge.verify import Gate
from tritonforge.workload.specs import parse_spec
from tritonforge.workload.subject import Subject

pytestmark = pytest.mark.triton
pytest.importorskip("triton")

GOLDEN = Path(__file__).parent.parent / "golden" / "structural"

CALLS = {
    "rows_two_axes": ("add_row", "x=fp32[5, 2, 8] bias=fp32[2, 8]"),
    "whole_softmax": ("row_softmax", "x=fp32[5, 48] block=16"),
    "columns_softmax": ("softmax", "x=fp32[3, 40]"),
    "tiles_columns": ("sum_columns", "x=fp32[45, 20]"),
    "scalar_map": ("scale_rows", "x=fp32[3, 40] s=fp32[3] first=3 last=40"),
    "pairs_flat": ("magnitude", "z=fp32[300]"),
    "products_transposed": ("product", "a=fp32[20, 24] b=fp32[18, 24]"),
    "dot_matmul": ("matmul", "a=fp16[40, 32] b=fp16[32, 48]"),
    "kmajor_matmul": ("matmul", "a=fp32[40, 32] b=fp32[32, 48]"),
    "descriptors_attention": ("attention", "q=fp16[1, 1, 40, 16] k=fp16[1, 1, 40, 16] v=fp16[1, 1, 40, 16]"),
    "strides_matmul": ("matmul", "a=fp16[40, 32] b=fp16[32, 48]"),
    "atomics_relaxed": ("histogram", "x=i32[300]~randint(0, 8)"),
    "lock_total": ("total", "x=fp32[300] start=fp32[1]"),
    "stages_dot": ("dot", "x=fp32[700] y=fp32[700]"),
    "size_row_length": ("double", "x=fp16[20, 60]"),
    "loops_ahead": ("double", "x=fp16[20, 60]"),
    "exp2_decode": ("decode", "q=fp32[2, 16] k=fp32[2, 40, 16] v=fp32[2, 40, 16]"),
    "causal_attention": ("causal_attention", "q=fp16[1, 1, 70, 16] k=fp16[1, 1, 70, 16] v=fp16[1, 1, 70, 16]"),
    "late_causal": ("causal", "q=fp16[1, 1, 40, 16] k=fp16[1, 1, 40, 16] v=fp16[1, 1, 40, 16]"),
    "tail_attention": ("attention", "q=fp16[1, 1, 40, 16] k=fp16[1, 1, 40, 16] v=fp16[1, 1, 40, 16]"),
    "heads_decode": ("decode", "q=fp16[1, 4, 16] k_cache=fp16[1, 40, 2, 16] v_cache=fp16[1, 40, 2, 16]"),
    "narrow_attention": ("attention", "q=bf16[1, 20, 16] k=bf16[1, 40, 16] v=bf16[1, 40, 16]"),
    "online_logsumexp": ("logsumexp", "x=fp32[3, 40] block=16"),
    "variance_tiles": ("moments", "x=fp32[3, 40] block=16"),
    "split_decode": ("decode", "q=fp32[1, 16] k=fp32[1, 40, 16] v=fp32[1, 40, 16]"),
    "private_rows": ("gradient", "dy=fp32[9, 12] x=fp32[9, 12]"),
    "persistent_rows": ("norm", "x=fp32[2, 5, 20] w=fp32[20]"),
    "chunked_gated": ("recurrence", "x=fp32[1, 40, 12] g=fp32[1, 40, 12]"),
    "state_linear": ("linear", "q=fp32[1, 20, 16] k=fp32[1, 20, 16] v=fp32[1, 20, 16]"),
    "blocks_matmul": ("matmul", "a=fp16[40, 32] b=fp16[32, 48]"),
    "deferred_mean": ("mean", "x=fp32[3, 70]"),
    "reciprocal_softmax": ("softmax", "x=fp32[3, 40]"),
    "random_nested": ("dropout", "x=fp32[3, 40] p=0.5 seed=1"),
    "nest_taps": ("filtered", "x=fp16[20, 18] w=fp16[3, 2, 18]"),
    "static_taps": ("filtered", "x=fp32[300] w=fp32[4]"),
    "axis_rounds": ("scale", "x=fp32[3, 40] s=fp32[3]"),
    "axes_matmul": ("matmul", "a=fp16[40, 32] b=fp16[32, 48]"),
    "../tables/default": ("square", "x=fp32[2000]"),
    "hoisted_weights": ("weighted", "x=fp32[5, 24] w=fp32[24]"),
}
"""Golden case → the host function and the arguments that its result is judged on."""


class _Worker:
    """One offline worker for all cases, on an event loop of its own."""

    def __init__(self, root):
        (root / "tritonforge.toml").write_text("")
        self.root = root
        self.loop = asyncio.new_event_loop()
        self.ready, self.done = threading.Event(), None
        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(self._serve()))

    async def _serve(self):
        self.done = asyncio.Event()
        async with open_session(load(self.root), "offline") as self.session:
            self.ready.set()
            await self.done.wait()

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(120)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join(60)
        self.loop.close()

    def judge(self, case, wrong=None):
        future = asyncio.run_coroutine_threadsafe(self._judge(case, wrong), self.loop)
        return future.result(280)

    async def _judge(self, case, wrong):
        before, after = ((GOLDEN / case / f"{name}.py").read_text() for name in ("before", "after"))
        after = wrong if wrong is not None else after
        file = f"{Path(case).name}.py"
        (self.root / file).write_text(before)
        name = json.loads((GOLDEN / case / "task.json").read_text())["kernel"]
        kernel = next(k for k in analyze(before, file).kernels if k.name == name)
        function, spec = CALLS[case]
        call = parse_spec(spec, file=file, function=function)
        subject = Subject(str(self.root), file, before, kernel, (call,))
        session = self.session
        gate = Gate(session.worker, subject.program(), subject.calls, seed=1, arch=session.arch, kernel=kernel)
        return (await gate.check(subject.program(after))).verdict


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with _Worker(tmp_path_factory.mktemp("structural")) as one:
        yield one


TELLING = frozenset(
    ["pipelined-loops", "unrolled-loops", "flattened-loops", "specialized-warps", "one-accumulator", "cache-hints"]
)
"""Rewrites that tell the compiler more of a loop or a load, and leave what is computed: one of them stands for all."""
ORDERING = frozenset(["heaviest-first", "grouped-programs", "program-axes"])
"""Rewrites that give programs other places: one of them, which changes the grid as well, stands for all."""


def test_every_rewrite_has_a_result_that_is_judged():
    judged = {json.loads((GOLDEN / case / "task.json").read_text())["rewrite"] for case in CALLS}
    assert {rewrite.name for rewrite in REWRITES} - TELLING - ORDERING <= judged
    assert judged & TELLING
    assert judged & ORDERING


@pytest.mark.parametrize("case", CALLS)
def test_the_gate_accepts_it(worker, case):
    verdict = worker.judge(case)
    assert verdict.accepted, verdict.reason
    assert verdict.checks["results"] == "passed"
    assert len(verdict.inputs) > 5


def _changed(case, version, *changes):
    text = (GOLDEN / case / f"{version}.py").read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


WRONG = {
    "a variance as a difference of squares": (
        "variance_tiles",
        "before",
        ("tl.where(cols < n, x - mean, 0.0)", "x"),
        ("squares / n", "squares / n - mean * mean"),
    ),
    "rows of -inf with a sum": (
        "online_logsumexp",
        "after",
        ('tl.where((highest == -float("inf")) & (n > 0), float("nan"), total)', "total"),
    ),
    "rows that begin with a tile of -inf": (
        "online_logsumexp",
        "after",
        ('base = tl.where(new_highest == -float("inf"), 0.0, new_highest)', "base = new_highest"),
    ),
    "products that leave fp32": ("chunked_gated", "after", ("tl.sum(odd) == 0", "T > 0")),
}
"""What is wrong → the golden case, its version, and what makes it so."""


@pytest.mark.parametrize("wrong", WRONG)
def test_the_gate_refuses_what_is_left_out_of_it(worker, wrong):
    case, version, *changes = WRONG[wrong]
    verdict = worker.judge(case, _changed(case, version, *changes))
    assert not verdict.accepted
    assert "differs" in verdict.reason


def test_the_gate_refuses_descriptors_of_rows_that_begin_anywhere(worker):
    after = _changed("descriptors_attention", "after", ("ALIGNED=aligned", "ALIGNED=True"))
    verdict = worker.judge("descriptors_attention", after)
    assert not verdict.accepted
    assert "16-byte aligned" in verdict.reason
