"""Engines that take their time, in the real loop on the offline target: compiled, interpreted and ranked for real.

The engine here is a local scripted policy: a second implementation of the protocol, which knows nothing of any model.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import Settings
from tritonforge.diagnosis.assessment import yardstick
from tritonforge.domain.candidate import Candidate
from tritonforge.domain.launch import Tensor
from tritonforge.domain.messages import Compare, CompareOnDevice, Compile, Time, TimedLaunch, TimedProgram, TimeResult
from tritonforge.domain.source import apply_edits
from tritonforge.domain.target import GpuInfo
from tritonforge.jobs.session import open_session
from tritonforge.optimize import optimize
from tritonforge.rewrite import Refusal, edits_between
from tritonforge.workload.specs import parse_spec
from tritonforge.workload.subject import Subject

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

FILE = "scale_shift.py"
HOST = "    grid = (triton.cdiv(n_elements, BLOCK),)\n    scale_shift_kernel[grid](x, y, out, scale, n_elements, BLOCK_SIZE=BLOCK)\n"


def with_block(block, options=""):
    new = HOST.replace("BLOCK)", f"{block})").replace("BLOCK_SIZE=BLOCK", f"BLOCK_SIZE={block}")
    return lambda text: text.replace(HOST, new.replace(f"BLOCK_SIZE={block})", f"BLOCK_SIZE={block}{options})"))


def then(*changes):
    def change(text):
        for one in changes:
            text = one(text)
        return text

    return change


def wrong(text):
    return text.replace("x * scale + y, mask", "x * scale - y, mask")


RIGHT, SLOW = with_block(1024), with_block(16)
WRONG = then(with_block(1024), wrong)
UNCOMPILABLE = with_block(1000)
BY_LIBRARY = lambda text: text.replace("    return out\n", "    return torch.add(x * scale, y)\n")  # noqa: E731


class Policy:
    """A scripted policy: each entry changes the text it is given, is a Refusal, or an exception to raise."""

    origin = "llm"

    def __init__(self, script, *, seconds=0.0):
        self.script = list(script)
        self.seconds = seconds
        self.seen: list[tuple] = []
        self.cancelled = False
        self.began: list[float] = []

    @property
    def over(self):
        return "the script is over" if len(self.seen) >= len(self.script) else ""

    @property
    def status(self):
        return f"step {len(self.seen)} of {len(self.script)}"

    async def think(self, task, trials=()):
        step = self.script[len(self.seen)]
        self.seen.append((task, tuple(trials)))
        self.began.append(time.monotonic())
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Refusal):
            return step
        text = task.texts[FILE]
        number = len(self.seen)
        return Candidate(f"step {number}", edits_between(FILE, text, step(text)), (("policy", ()),), "llm")


class Rule:
    """A rule: proposes one change of whatever it is given, where it is one."""

    origin = "rule"

    def __init__(self, *changes):
        self.changes = changes

    def propose(self, task, trials=()):
        text = task.texts[FILE]
        for number, change in enumerate(self.changes, 1):
            if change(text) != text:
                yield Candidate(f"rule {number}", edits_between(FILE, text, change(text)), (("rule", ()),), "rule")


TIMES = {"BLOCK": 150.0, "1024": 50.0, "16": 600.0, "2048": 49.9}
"""Median µs of a version by the block that it launches with."""


class Timed:
    """A worker that compiles and interprets for real; how long a version takes on "its GPU" follows from its block."""

    def __init__(self, worker):
        self.worker, self.hello = worker, worker.hello
        self.timed = []

    async def run(self, request, **options):
        if isinstance(request, CompareOnDevice):
            inputs = tuple(
                c
                for c in request.inputs
                if all(max(v.shape, default=0) < 10_000 for _, v in c.keywords if isinstance(v, Tensor))
            )
            request = Compare(request.original, request.candidate, inputs, request.tolerance, request.stop_at_first)
        if not isinstance(request, Time):
            return await self.worker.run(request, **options)
        programs = []
        for program in request.programs:
            block = re.search(r"BLOCK_SIZE=(\w+)", program.overlays[0][1].partition("def scale_shift(")[2])[1]
            self.timed.append(block)
            compiled = await self.worker.run(Compile(program, request.call, "sm_90", artefacts=()))
            row = tuple(TIMES[block] * (1 + 0.001 * (n % 3)) for n in range(request.samples))
            programs.append(TimedProgram(tuple(TimedLaunch(one.launch, row) for one in compiled.launches)))
        return TimeResult(tuple(programs))


def on_a_gpu(session):
    gpu = GpuInfo("NVIDIA H200", "sm_90", 132, 150 << 30, "580.159.04")
    described = dataclasses.replace(session.described, gpus=(gpu,))
    return dataclasses.replace(session, worker=Timed(session.worker), described=described, measures=True)


def search(
    folder: Path, engines, *, budget_s=300.0, on_step=lambda _: None, cancel_when=None, pretend=lambda session: session
):
    text = (folder / FILE).read_text()
    (kernel,) = analyze(text, FILE).kernels
    call = parse_spec("x=fp32[16777259] y=fp32[16777259] scale=0.5", file=FILE, function="scale_shift")
    subject = Subject(str(folder), FILE, text, kernel, (call,))

    async def go():
        async with open_session(Settings(folder), "offline") as opened:
            session = pretend(opened)
            work = asyncio.create_task(
                optimize(subject, session, yardstick(session), engines, budget_s=budget_s, on_step=on_step)
            )
            if cancel_when is not None:
                while not cancel_when():  # noqa: ASYNC110 - what it waits for is in an engine
                    await asyncio.sleep(0.02)
                asked = time.monotonic()
                work.cancel()
                return await work, time.monotonic() - asked
            return await work

    return asyncio.run(go())


def test_each_proposal_ends_as_it_must_and_the_right_one_is_suggested(fresh_examples):
    declined = Refusal("the answer is empty", "policy", Candidate("step 4", (), (), "llm"))
    policy = Policy([UNCOMPILABLE, WRONG, SLOW, declined, BY_LIBRARY, RIGHT])
    steps = []
    result = search(fresh_examples(), [policy], on_step=steps.append)
    reasons = {t.candidate.title: t.reason for t in result.trials}
    assert "power of 2" in reasons["step 1"] or "power of two" in reasons["step 1"]
    assert reasons["step 2"].startswith("refused: ")
    assert "slower" in reasons["step 3"]
    assert reasons["step 4"] == "refused before it ran: the answer is empty"
    assert "torch.add" in reasons["step 5"] or "on a tensor" in reasons["step 5"]
    assert result.best.trial.candidate.title == "step 6"
    assert result.best.trial.candidate.origin == "llm"
    assert result.best.trial.verdict.accepted
    assert result.best.speedup > 1.5
    assert "the model: the script is over" in result.stopped_because
    assert any("step 2 of 6" in step.thinking for step in steps)
    # Every answer was asked for with what became of those before it.
    assert [len(trials) for _, trials in policy.seen] == [0, 1, 2, 3, 3, 4]
    assert policy.seen[2][1][1].verdict.accepted is False


def test_with_a_gpu_a_proposal_is_verified_before_it_is_measured(fresh_examples):
    policy = Policy([WRONG, SLOW, RIGHT, then(lambda text: text.replace("1024", "2048"))])
    sessions = []

    def pretend(session):
        sessions.append(on_a_gpu(session))
        return sessions[-1]

    result = search(fresh_examples(), [policy], pretend=pretend)
    trials = {t.candidate.title.partition(",")[0]: t for t in result.trials}
    assert trials["step 1"].reason.startswith("refused: ")
    assert trials["step 1"].time_us is None, "what is wrong is not timed"
    assert "measured 4.00x slower" in trials["step 2"].reason
    assert trials["step 2"].verdict.accepted
    assert not trials["step 2"].accepted
    assert result.best.trial.candidate.title == "step 3"
    assert result.best.provenance == "measured"
    assert result.best.speedup == pytest.approx(3.0, rel=0.01)
    assert trials["step 4"].reason.startswith("not faster than the best: ")
    assert policy.seen[3][0].texts[FILE] == RIGHT(policy.seen[0][0].texts[FILE]), "it went on from the best"
    assert sessions[0].worker.timed.count("1024") == 2, "measured once, and confirmed"


def test_rules_and_proposals_go_on_from_each_other_and_the_origin_says_so(fresh_examples):
    def more_warps(text):
        return text.replace("BLOCK_SIZE=2048)", "BLOCK_SIZE=2048, num_warps=8)")

    def doubled(text):
        return text.replace("1024", "2048").replace("    mask =", "    # one tile a program\n    mask =")

    # The rules find 1024 from the original; the policy, asked again, doubles that; then the rules have 2048 to work on.
    policy = Policy([Refusal("not yet", "policy"), doubled])
    result = search(fresh_examples(), [Rule(RIGHT, more_warps), policy])
    origins = {trial.candidate.title: trial.candidate.origin for trial in result.trials}
    assert origins["rule 1"] == "rule"
    assert "1024" in policy.seen[1][0].texts[FILE], "it was asked about the best version so far"
    assert origins["step 2, on: rule 1"] == "both"
    (doubling,) = [t.candidate for t in result.trials if t.candidate.title == "step 2, on: rule 1"]
    original = (fresh_examples() / FILE).read_text()
    assert apply_edits(original, doubling.edits) == doubled(RIGHT(original))
    if result.best.trial.candidate.title != "rule 1":  # the model of time decides whether 2048 is better
        assert origins["rule 2, on: step 2, on: rule 1"] == "both"
    assert result.best.trial.candidate.origin == origins[result.best.trial.candidate.title]


def test_rules_have_a_proposal_that_won_to_start_from(fresh_examples):
    def more_warps(text):
        return text.replace("BLOCK_SIZE=1024)", "BLOCK_SIZE=1024, num_warps=8)")

    policy = Policy([then(RIGHT, lambda text: text.replace("    mask =", "    # one tile a program\n    mask ="))])
    result = search(fresh_examples(), [Rule(more_warps), policy])
    origins = {trial.candidate.title: trial.candidate.origin for trial in result.trials}
    assert origins == {"step 1": "llm", "rule 1, on: step 1": "both"}
    (refined,) = [t.candidate for t in result.trials if t.candidate.origin == "both"]
    after = apply_edits((fresh_examples() / FILE).read_text(), refined.edits)
    assert "# one tile a program" in after
    assert "num_warps=8" in after


def test_the_search_goes_on_while_an_engine_thinks_and_a_cancellation_does_not_wait_for_it(fresh_examples):
    policy = Policy([Refusal("nothing", "policy")], seconds=3600.0)
    meanwhile = []

    def step(one):
        if one.stage in {"compile", "verify"} and policy.seen:
            meanwhile.append(one)

    rule = Rule(*(with_block(block) for block in (128, 256, 1024)))
    result, took = search(fresh_examples(), [rule, policy], on_step=step, cancel_when=lambda: len(meanwhile) >= 2)
    assert result.stopped_because == "interrupted"
    assert policy.cancelled, "what it was asked ends with the search"
    assert took < 60, "an hour would have been waited for"


def test_an_engine_that_breaks_its_promise_is_left_and_the_budget_ends_the_wait_for_another(fresh_examples):
    broken, slow = Policy([RuntimeError("oh"), RIGHT]), Policy([Refusal("nothing", "policy")], seconds=3600.0)
    result = search(fresh_examples(), [broken, slow], budget_s=6.0)
    assert result.stopped_because == "budget spent"
    assert slow.cancelled == bool(slow.seen)
    assert len(broken.seen) <= 1
    assert not broken.seen or any("RuntimeError" in note for note in result.notes)
