"""What the gate concludes from outcomes; running real candidates is tested from the command line and in the worker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import Compare, CompareOnDevice, CompareResult, InputOutcome, Program
from tritonforge.verify import Gate

ORIGINAL = Program("/w", "k.py")
CANDIDATE = Program("/w", "k.py", (("k.py", "candidate"),))
CALL = Call("c", "k.py", "f", (Tensor((4096,), (1,), "float32"),))
EQUAL = InputOutcome("equal", worst_error=1e-7, outputs=1)


class Scripted:
    """A worker that answers comparisons with what `answer(request, call)` says."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.requests: list[Compare | CompareOnDevice] = []
        self.hello = SimpleNamespace(lanes=1)

    async def run(self, request, **_):
        self.requests.append(request)
        outcomes = []
        for call in request.inputs:
            outcomes.append(EQUAL if request.candidate == ORIGINAL else self.answer(request, call))
            if request.stop_at_first and outcomes[-1].status in {"different", "candidate-failed"}:
                break
        return CompareResult(tuple(outcomes))


def verdict(answer, *, on_device=False):
    worker = Scripted(answer)
    gate = Gate(worker, ORIGINAL, (CALL,), on_device=on_device, seed=7)
    return asyncio.run(gate.check(CANDIDATE, tile=64)), worker


def test_a_candidate_that_is_equal_on_every_input_passes():
    trialled, _ = verdict(lambda *_: EQUAL)
    assert trialled.verdict.accepted
    assert len(trialled.verdict.inputs) >= 6
    assert trialled.verdict.checks["on the GPU"] == "skipped: no GPU here"
    assert trialled.verdict.replay == "00000007"


def test_one_different_input_refuses_and_is_named():
    def answer(_, call):
        size = call.arguments[0].shape[0]
        return InputOutcome("different", "differs at 1 of 19 elements", outputs=1) if size < 64 and size > 1 else EQUAL

    trialled, _ = verdict(answer)
    assert not trialled.verdict.accepted
    assert trialled.failing_input in trialled.verdict.reason
    assert trialled.verdict.checks["results"].startswith("failed: differs")
    assert "skipped: refused before" in trialled.verdict.checks.values()


def test_an_access_out_of_bounds_fails_the_check_of_bounds_not_that_of_results():
    outcome = InputOutcome("candidate-failed", "reads element 70 of x, whose memory has 64", out_of_bounds=True)
    checks = verdict(lambda *_: outcome)[0].verdict.checks
    assert checks["within bounds"].startswith("failed: reads element 70")
    assert checks["results"] == "passed"


def test_a_changed_input_fails_the_check_of_inputs():
    checks = verdict(lambda *_: InputOutcome("different", "x differs", inputs_changed=("x",), outputs=1))[
        0
    ].verdict.checks
    assert checks["inputs unchanged"].startswith("failed")


def test_when_the_original_fails_everywhere_nothing_is_accepted():
    trialled, _ = verdict(lambda *_: InputOutcome("original-failed", "TypeError: no"))
    assert not trialled.verdict.accepted
    assert "TypeError: no" in trialled.verdict.reason


def test_an_original_that_leaves_its_buffers_is_told_so():
    def answer(_, call):
        odd = call.arguments[0].shape[0] % 16
        return InputOutcome("original-failed", "reads element 64 of x", out_of_bounds=True) if odd else EQUAL

    (note,) = verdict(answer)[0].notes
    assert "original itself leaves its buffers" in note
    assert "reads element 64 of x" in note


def test_inputs_on_which_nothing_is_compared_accept_nothing():
    assert not verdict(lambda *_: InputOutcome("equal", outputs=0))[0].verdict.accepted


def test_with_a_gpu_the_same_inputs_and_the_recorded_one_run_there_too():
    trialled, worker = verdict(lambda *_: EQUAL, on_device=True)
    (device,) = [r for r in worker.requests if isinstance(r, CompareOnDevice)]
    assert any(call.arguments[0].shape == (4096,) for call in device.inputs)
    assert trialled.verdict.checks["on the GPU"] == "passed"


def test_a_difference_that_only_the_gpu_shows_refuses():
    def answer(request, _):
        return InputOutcome("different", "a race", outputs=1) if isinstance(request, CompareOnDevice) else EQUAL

    trialled, _ = verdict(answer, on_device=True)
    assert not trialled.verdict.accepted
    assert trialled.verdict.checks["on the GPU"].startswith("failed: a race")
