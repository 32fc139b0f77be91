"""What of a check runs beside what, on a worker whose jobs take given times: time passes in its timers alone."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from tritonforge.domain.baseline import GpuState
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import (
    TUNED,
    Compare,
    CompareOnDevice,
    CompareResult,
    Compile,
    CompiledLaunch,
    CompileResult,
    Failure,
    InputOutcome,
    LookAtGpu,
    Precision,
    Program,
)
from tritonforge.jobs import JobError
from tritonforge.verify import Gate

TEXT = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, o, N, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + c, mask=c < N)
    tl.store(o + c, v, mask=c < N)


def copy(x):
    o = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), B=64)
    return o
"""
ORIGINAL = Program("/w", "k.py", (("k.py", TEXT),))
CANDIDATE = replace(ORIGINAL, overlays=(("k.py", TEXT.replace("B=64", "B=128").replace("(), 64", "(), 128")),))
CALLS = tuple(Call(name, "k.py", "copy", (Tensor((4096 + at,), (1,), "float32"),)) for at, name in enumerate("cd"))
EQUAL = InputOutcome("equal", worst_error=0.0, outputs=1, oracle="original")
WRONG = InputOutcome("different", "wrong", outputs=1)
LAUNCH = RecordedLaunch("k.py", "kernel", 6, (), (("B", Scalar(64)),), (), (64, 1, 1), CallSite("k.py", 14, "copy"))


class Passing(selectors.SelectSelector):
    """Waits for nothing: the time of the next timer is there at once."""

    now = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "whatever is waited for never comes"
        self.now += max(timeout, 0.0)
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = Passing()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


@dataclass
class Did:
    """A job that was begun; `end` is None as long as it runs, and when it was cancelled."""

    request: object
    start: float
    end: float | None = None
    cancelled: bool = False

    @property
    def of_candidate(self) -> bool:
        programs = getattr(self.request, "candidate", None) or getattr(self.request, "program", ORIGINAL)
        return programs != ORIGINAL


class Lanes:
    """A worker with lanes: each input of a job takes as many seconds as `seconds(request, call)` says."""

    def __init__(self, answer=lambda *_: EQUAL, lanes=8, seconds=lambda *_: 1.0) -> None:
        self.hello = SimpleNamespace(lanes=lanes)
        self.answer, self.seconds = answer, seconds
        self.free = {lane: asyncio.Semaphore(lanes) for lane in ("compile", "interpret")}
        self.free["device"] = asyncio.Semaphore(1)
        self.did: list[Did] = []

    async def run(self, request, **_):
        async with self.free[request.lane]:
            did = Did(request, asyncio.get_running_loop().time())
            self.did.append(did)
            try:
                inputs = getattr(request, "inputs", (None,))
                await asyncio.sleep(sum(self.seconds(request, call) for call in inputs))
            except asyncio.CancelledError:
                did.cancelled = True
                raise
            did.end = asyncio.get_running_loop().time()
            return self.result(request)

    def result(self, request):
        if isinstance(request, LookAtGpu):
            return GpuState()
        if isinstance(request, Compile):
            return CompileResult((CompiledLaunch(LAUNCH, "sm_90", "3.7.1", {"ttir": ""}),))
        if request.candidate == ORIGINAL:
            return CompareResult((EQUAL,) * len(request.inputs))
        outcomes = []
        for call in request.inputs:
            outcomes.append(self.answer(request, call))
            if outcomes[-1].status == "different":
                break
        return CompareResult(tuple(outcomes))

    def compared(self, of=Compare) -> list[Did]:
        return [one for one in self.did if isinstance(one.request, of) and one.of_candidate]

    def asked(self) -> list[Did]:
        """Return what the original alone was asked."""
        return [one for one in self.did if isinstance(one.request, Compare) and not one.of_candidate]

    @property
    def running(self) -> list[Did]:
        return [one for one in self.did if one.end is None and not one.cancelled]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No thread: what it does takes no time here."""

    async def to_thread(do, *args):
        return do(*args)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)


def run(coroutine):
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(coroutine)


def gate_of(worker, calls=1, **options) -> Gate:
    return Gate(worker, ORIGINAL, CALLS[:calls], seed=7, **options)


async def checked(worker, calls=1, **options):
    return (await gate_of(worker, calls, **options).check(CANDIDATE)).verdict


def size(call) -> int:
    return call.arguments[0].shape[0]


def test_the_first_inputs_run_at_once_each_on_a_lane_of_its_own():
    async def go():
        worker = Lanes()
        await checked(worker)
        return worker

    first, second, *rest = run(go()).compared()
    assert [(len(one.request.inputs), one.request.again) for one in (first, second)] == [(1, False)] * 2
    assert first.start == second.start
    assert min(one.start for one in rest) >= max(first.end, second.end)
    assert all(one.request.again for one in rest), "and once more, to run again what agrees"
    assert [first.request.inputs[0], second.request.inputs[0]] in [list(one.request.inputs) for one in rest]


def test_the_gpu_begins_when_the_first_inputs_agree_and_never_does_two_jobs():
    async def go():
        worker = Lanes(seconds=lambda request, _: 5.0 if isinstance(request, CompareOnDevice) else 1.0)
        verdict = await checked(worker, 2, on_device=True, arch="sm_90")
        return worker, verdict

    worker, verdict = run(go())
    assert verdict.accepted
    interpreted, there = worker.compared(), worker.compared(CompareOnDevice)
    first = {one.request.inputs[0].seed: one for one in interpreted[:2]}
    assert len(there) == 2
    assert there[0].start >= max(one.end for one in first.values())
    assert there[0].start < max(one.start for one in interpreted), "beside what is still to be interpreted"
    assert there[1].start >= there[0].end


@pytest.mark.parametrize("autotuned", [True, False])
def test_on_the_gpu_an_autotuners_configurations_take_turns_and_are_compiled_before(monkeypatch, autotuned):
    monkeypatch.setitem(globals(), "LAUNCH", replace(LAUNCH, autotuned=autotuned))

    async def go():
        worker = Lanes()
        assert (await checked(worker, on_device=True, arch="sm_90")).accepted
        return worker

    worker = run(go())
    ((*there, recorded),) = (one.request.turns for one in worker.compared(CompareOnDevice))
    compiled = {one.request.turn for one in worker.did if isinstance(one.request, Compile) and one.of_candidate}
    if autotuned:
        assert there == sorted(set(there)), "each place has its own, so that a replay has the same"
        assert there[:8] == list(range(8))
        assert recorded == TUNED, "what was timed is what its autotuner has chosen for these sizes"
        assert compiled == {0, *there}
    else:
        assert {*there, recorded} == compiled == {0}
    assert {one.request.turn for one in worker.did if isinstance(one.request, Compile) and not one.of_candidate} == {0}


@pytest.mark.parametrize("gpu", [0.1, 500.0])
def test_what_the_interpreter_refuses_is_said_whether_the_gpu_is_sooner_or_not(gpu):
    def answer(_, call):
        return WRONG if size(call) == 1 else EQUAL

    async def go(seconds):
        worker = Lanes(answer, seconds=seconds)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go(lambda request, _: gpu if isinstance(request, CompareOnDevice) else 1.0))
    _, alone = run(go(lambda *_: 1.0))
    assert not verdict.accepted
    assert "-c0." in verdict.replay
    assert (verdict.reason, verdict.replay, verdict.inputs) == (alone.reason, alone.replay, alone.inputs)
    assert verdict.checks == alone.checks
    (there,) = worker.compared(CompareOnDevice)
    assert there.cancelled is (gpu > 100)
    assert worker.running == []


@pytest.mark.parametrize("gpu", [0.1, 50.0])
def test_what_the_gpu_alone_refuses_is_said_when_the_interpreter_is_through(gpu):
    def answer(request, _):
        return WRONG if isinstance(request, CompareOnDevice) else EQUAL

    async def go():
        worker = Lanes(answer, seconds=lambda request, _: gpu if isinstance(request, CompareOnDevice) else 1.0)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go())
    assert verdict.replay == "00000007-g0.0"
    assert not any(one.cancelled for one in worker.compared())
    inputs = sum(len(one.request.inputs) for one in worker.compared() if one.request.again)
    assert sum("equal" in text for text in verdict.inputs) == inputs


LOSES = {"first": Precision(2.0**-23, 1e-7), "more": Precision(2.0**-23, 3e-7), "other": Precision(2.0**-10, 3e-7)}


@pytest.mark.parametrize(("later", "times"), [("first", 1), ("more", 2), ("other", 2)])
def test_what_the_gpu_refuses_is_judged_again_by_all_that_the_interpreter_told(later, times):
    """The first inputs tell one precision and a later one another, with which the candidate's error is none."""
    seen = []

    def answer(request, call):
        if isinstance(request, CompareOnDevice):
            seen.append(request.precision)
            return EQUAL if request.precision == LOSES[later] else WRONG
        return replace(EQUAL, precision=LOSES[later] if size(call) == 1 else LOSES["first"])

    async def go():
        worker = Lanes(answer)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go())
    assert verdict.accepted
    assert seen[0] == LOSES["first"]
    assert seen[-1] == LOSES[later]
    assert len(worker.compared(CompareOnDevice)) == times


@pytest.mark.parametrize(("later", "times"), [("more", 1), ("other", 2)])
def test_what_agrees_on_the_gpu_still_does_where_the_original_loses_more_but_not_where_it_computes_in_less(
    later, times
):
    def answer(_, call):
        return replace(EQUAL, precision=LOSES[later] if size(call) == 1 else LOSES["first"])

    async def go():
        worker = Lanes(answer)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go())
    assert verdict.accepted
    assert len(worker.compared(CompareOnDevice)) == times


def test_what_differs_on_the_gpu_beside_the_interpreter_is_explained_only_when_that_is_through():
    def answer(request, _):
        return EQUAL if isinstance(request, Compare) or request.thorough else WRONG

    async def go():
        worker = Lanes(answer)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go())
    assert verdict.accepted
    beside, after = worker.compared(CompareOnDevice)
    assert (beside.request.thorough, after.request.thorough) == (False, True)
    assert beside.start < max(one.end for one in worker.compared()) <= after.start


@pytest.mark.parametrize("breaks", [False, True])
def test_an_input_on_which_the_original_leaves_its_buffers_says_nothing_on_the_gpu(breaks):
    outside = replace(EQUAL, status="original-failed", detail="it reads outside", out_of_bounds=True)

    def answer(request, call):
        if size(call) != 1:
            return EQUAL
        return WRONG if isinstance(request, CompareOnDevice) else outside

    class Breaking(Lanes):
        def result(self, request):
            if breaks and isinstance(request, CompareOnDevice) and any(size(call) == 1 for call in request.inputs):
                raise JobError(Failure("cuda-error", "an illegal memory access"))
            return super().result(request)

    async def go():
        worker = Breaking(answer)
        return worker, await checked(worker, on_device=True, arch="sm_90")

    worker, verdict = run(go())
    assert verdict.accepted, verdict.reason
    beside, after = worker.compared(CompareOnDevice)
    assert {size(call) for call in beside.request.inputs} - {size(call) for call in after.request.inputs} == {1}


def test_a_further_candidate_is_judged_on_the_gpu_by_what_is_known_of_the_original():
    def answer(_, call):
        return replace(EQUAL, precision=LOSES["more"] if size(call) == 1 else LOSES["first"])

    async def go():
        worker = Lanes(answer)
        gate = gate_of(worker, on_device=True, arch="sm_90")
        for _ in range(2):
            assert (await gate.check(CANDIDATE)).verdict.accepted
        return worker

    told = [one.request.precision for one in run(go()).compared(CompareOnDevice)]
    assert told == [LOSES["first"], LOSES["more"]]


def test_the_original_is_asked_beside_the_candidates_compilation_and_nothing_twice():
    async def go():
        worker = Lanes()
        gate = gate_of(worker, arch="sm_90")
        gate.prepare()
        gate.prepare()
        first = await gate.check(CANDIDATE)
        asked = len(worker.asked())
        second = await gate.check(CANDIDATE)
        assert len(worker.asked()) == asked
        await gate.close()
        return worker, first.verdict, second.verdict

    worker, first, second = run(go())
    assert first.accepted
    assert first.replay == second.replay
    assert first.inputs == second.inputs
    inputs = Counter(call for one in worker.asked() if one.request.runs == "again" for call in one.request.inputs)
    assert set(inputs.values()) == {1}
    compiled = [one for one in worker.did if isinstance(one.request, Compile) and one.request.call == CALLS[0]]
    assert sum(not one.of_candidate for one in compiled) == 1
    assert min(one.start for one in worker.asked()) < min(one.end for one in compiled)


def test_a_further_candidate_goes_through_the_rest_at_once():
    async def go():
        worker = Lanes(lanes=200)
        gate = gate_of(worker)
        await gate.check(CANDIDATE)
        began = len(worker.compared())
        await gate.check(CANDIDATE)
        return worker.compared()[began:]

    first, second, *rest = run(go())
    assert first.start == second.start
    assert {one.start for one in rest} == {first.end}


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_a_candidate_that_is_wrong_on_its_first_inputs_costs_no_more_than_these(lanes):
    async def go():
        worker = Lanes(lambda *_: WRONG, lanes=lanes)
        verdict = await checked(worker, on_device=True)
        return worker, verdict, asyncio.get_running_loop().time()

    worker, verdict, ended = run(go())
    assert verdict.replay == "00000007-c0.0"
    assert sum(len(one.request.inputs) for one in worker.compared()) == 2
    assert worker.compared(CompareOnDevice) == []
    assert worker.running == []
    sizes = [one for one in worker.asked() if one.request.runs == "once"]
    assert ended <= max(one.end for one in sizes) + 2.0
    if lanes <= 2:
        assert sizes == worker.asked(), "what it allows is asked for those alone that agree so far"


@pytest.mark.parametrize("lanes", [3, 8])
def test_the_first_inputs_find_lanes_though_the_original_is_asked_what_takes_long(lanes):
    async def go():
        worker = Lanes(lanes=lanes, seconds=lambda request, _: 100.0 if request.runs == "again" else 1.0)
        gate = gate_of(worker)
        gate.prepare()
        await asyncio.sleep(50)
        assert any(one.request.runs == "again" for one in worker.running)
        began = asyncio.get_running_loop().time()
        check = asyncio.create_task(gate.check(CANDIDATE))
        await asyncio.sleep(2)
        check.cancel()
        await gate.close()
        return [one.start - began for one in worker.compared()[:2]]

    assert run(go()) == [0, 0]


def test_what_is_prepared_goes_on_when_a_candidate_is_refused_until_the_gate_is_closed():
    async def go():
        worker = Lanes(lambda *_: WRONG, seconds=lambda request, _: 100.0 if request.runs == "again" else 1.0)
        gate = gate_of(worker)
        gate.prepare()
        await gate.check(CANDIDATE)
        assert worker.running
        await gate.close()
        assert not worker.running
        return [one.cancelled for one in worker.asked()]

    assert True in run(go())


def test_what_goes_wrong_beforehand_is_told_to_who_asks_and_may_be_right_by_then():
    class Failing(Lanes):
        broken = True

        def result(self, request):
            if self.broken and isinstance(request, Compare):
                raise JobError(Failure("unsupported", "No torch."))
            return super().result(request)

    async def go():
        worker = Failing()
        gate = gate_of(worker)
        gate.prepare()
        await asyncio.sleep(100)
        with pytest.raises(JobError, match="No torch"):
            await gate.check(CANDIDATE)
        worker.broken = False
        accepted = (await gate.check(CANDIDATE)).verdict.accepted
        await gate.close()
        await gate.close()
        return accepted

    assert run(go())


def test_a_cancelled_check_leaves_nothing_behind():
    async def go():
        worker = Lanes(seconds=lambda *_: 100.0)
        check = asyncio.create_task(gate_of(worker, on_device=True, arch="sm_90").check(CANDIDATE))
        await asyncio.sleep(450)
        assert worker.running
        check.cancel()
        await asyncio.wait([check])
        assert check.cancelled()
        return [one.request for one in worker.running if not isinstance(one.request, LookAtGpu)]

    assert run(go()) == []


def test_the_first_of_the_plan_that_fails_is_told_whichever_lane_is_there_first():
    """Of two inputs that fail, the later one is there long before the other."""

    def answer(_, call):
        return WRONG if size(call) in {1, 64} else EQUAL

    async def go(lanes, slow):
        worker = Lanes(answer, lanes, lambda request, call: 50.0 if call is not None and size(call) == slow else 1.0)
        verdict = await checked(worker)
        return verdict.reason, verdict.replay, verdict.inputs

    found = {run(go(lanes, slow)) for lanes in (1, 2, 3, 8) for slow in (1, 64)}
    assert len(found) == 1


class Doubtful(Lanes):
    """Runs a candidate again once it agrees on all inputs of a job: the first then fails, where it is among them."""

    def result(self, request):
        found = super().result(request)
        if (
            not isinstance(request, Compare)
            or not request.again
            or any(one.status != "equal" for one in found.outcomes)
        ):
            return found
        first, *rest = found.outcomes
        if request.inputs[0].seed == 7 and request.candidate != ORIGINAL:
            first = replace(first, status="different", detail="another order", check="program order")
        said = "failed: another order" if first.check else "passed"
        return CompareResult((first, *rest), (("host computation", "passed"), ("program order", said)))


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_what_another_order_shows_of_the_first_inputs_is_told_unless_the_second_is_wrong_itself(lanes):
    async def go(wrong):
        return await checked(Doubtful(lambda _, call: WRONG if call.seed == wrong else EQUAL, lanes))

    second, order = run(go(8)), run(go(20))
    assert second.replay == "00000007-c0.1"
    assert second.checks["program order"] == "skipped: refused before"
    assert order.replay == "00000007-c0.0"
    assert order.checks["program order"] == "failed: another order"
    assert (len(second.inputs), len(order.inputs)) == (2, 2)


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("wrong", [9, 20])
def test_of_what_fails_after_the_first_inputs_it_is_said_that_these_were_run_again(lanes, wrong):
    class Again(Lanes):
        def result(self, request):
            found = super().result(request)
            agreed = isinstance(request, Compare) and all(one.status == "equal" for one in found.outcomes)
            return replace(found, checks=(("program order", "passed"),)) if agreed and request.again else found

    async def go():
        return await checked(Again(lambda _, call: WRONG if call.seed == wrong else EQUAL, lanes))

    verdict = run(go())
    assert verdict.replay == f"00000007-c0.{wrong - 7}"
    assert verdict.checks["program order"] == "passed"
    assert len(verdict.inputs) == wrong - 6
