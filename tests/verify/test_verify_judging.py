"""What the gate concludes from outcomes, and the rule that outcomes rest on.

Running real candidates is tested from the command line and in the worker.
"""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

import pytest

from tritonforge.domain.baseline import GpuState
from tritonforge.domain.launch import Call, Tensor
from tritonforge.domain.messages import (
    Compare,
    CompareOnDevice,
    CompareResult,
    InputOutcome,
    LookAtGpu,
    Program,
    Tolerance,
)
from tritonforge.verify import Gate
from tritonforge.verify.on_device import ON_DEVICE

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
        if isinstance(request, LookAtGpu):
            return GpuState()
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


def test_with_a_gpu_some_of_the_same_inputs_and_the_recorded_one_run_there_too():
    trialled, worker = verdict(lambda *_: EQUAL, on_device=True)
    (device,) = [r for r in worker.requests if isinstance(r, CompareOnDevice)]
    interpreted = [c for r in worker.requests if isinstance(r, Compare) and r.candidate == CANDIDATE for c in r.inputs]
    *same, recorded = device.inputs
    assert recorded.arguments[0].shape == (4096,)
    assert len(device.inputs) == min(ON_DEVICE, len(interpreted) + 1)
    assert all(call in interpreted for call in same)
    assert same[:2] == interpreted[:2]
    assert trialled.verdict.checks["on the GPU"] == "passed"


def test_a_difference_that_only_the_gpu_shows_refuses():
    def answer(request, _):
        return InputOutcome("different", "a race", outputs=1) if isinstance(request, CompareOnDevice) else EQUAL

    trialled, _ = verdict(answer, on_device=True)
    assert not trialled.verdict.accepted
    assert trialled.verdict.checks["on the GPU"].startswith("failed: a race")


# --- the rule itself, over tensors -----------------------------------------------------------------------------------


def judged(want, got, oracle, *shifts, walks=(), dtype="float32", eps=2.0**-23, flushed=False, **tolerance):
    torch = pytest.importorskip("torch")
    from tritonforge.worker.judging import Evidence, judge

    kind = getattr(torch, dtype)
    tensors = [torch.as_tensor(t, dtype=torch.float64) for t in (oracle, *shifts)]
    want, got = (torch.as_tensor(t, dtype=torch.float64).to(kind) for t in (want, got))
    evidence = Evidence(tensors[0], tensors[1:], walks, eps, flushed=flushed)
    return judge(want, got, evidence, Tolerance(**tolerance))


@pytest.fixture
def noise():
    torch = pytest.importorskip("torch")
    return lambda *shape, seed=0: torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.triton
class TestRule:
    def test_the_last_rounding_is_always_allowed_and_a_second_one_is_not(self, noise):
        oracle = noise(64, 64)
        rounded = oracle.bfloat16()
        assert not judged(rounded, rounded, oracle, dtype="bfloat16").count
        twice = (oracle * 0.7).bfloat16().double() / 0.7
        assert judged(rounded, twice, oracle, dtype="bfloat16").count > 64

    def test_an_oracle_that_was_rounded_itself_allows_a_whole_ulp_and_no_more(self):
        one = [1.0] * 16
        assert not judged(one, [1.0078125, *one[1:]], one, dtype="bfloat16").count
        assert judged(one, [1.015625, *one[1:]], one, dtype="bfloat16").count == 1

    def test_a_lucky_element_does_not_forbid_what_its_neighbours_need(self, noise):
        oracle = noise(32, 64) + 3
        error = noise(32, 64, seed=1) * 1e-4
        want = oracle + error
        want[:, 5] = oracle[:, 5]
        assert not judged(want, oracle + noise(32, 64, seed=2) * 1e-4, oracle).count

    def test_what_is_badly_known_in_one_row_is_no_excuse_in_another(self, noise):
        oracle = noise(2, 64) + 3
        want = oracle.clone()
        want[0] += noise(64, seed=1) * 1e-2
        got = oracle.clone()
        got[1] += 1e-3
        found = judged(want, got, oracle)
        assert (found.count, found.where) == (64, 64)
        got = oracle.clone()
        got[0] += 1e-3
        assert not judged(want, got, oracle).count

    def test_what_is_badly_known_of_large_elements_is_no_excuse_for_small_ones(self, noise):
        oracle = noise(256).abs() + 0.5
        oracle[::2] *= 1e6
        want = oracle.clone()
        want[::2] += 10
        got = want.clone()
        got[1::2] += 1e-3
        assert judged(want, got, oracle).count == 128

    def test_a_result_that_cancellation_left_small_is_as_inexact_as_its_neighbours(self, noise):
        oracle = noise(16, 64)
        oracle[:, 0] = 1e-9
        got = oracle.clone()
        got[:, 0] += 2e-7
        assert not judged(oracle, got, oracle).count
        got[:, 0] += 1e-5
        assert judged(oracle, got, oracle).count == 16

    def test_conditioning_allows_what_moving_the_inputs_does(self, noise):
        oracle = noise(16, 64)
        got = oracle + 1e-4
        assert judged(oracle, got, oracle).count
        assert not judged(oracle, got, oracle, noise(16, 64, seed=1) * 1e-4, noise(16, 64, seed=2) * 1e-4).count

    def test_sums_may_be_added_in_an_order_that_loses_more_than_the_originals(self, noise):
        oracle = noise(16, 64) + 5
        want, got = oracle + noise(16, 64, seed=1) * 2e-6, oracle + noise(16, 64, seed=2) * 2e-5
        walks = [noise(16, 64, seed=s) * 2e-5 for s in (3, 4, 5)]
        assert judged(want, got, oracle).count
        found = judged(want, got, oracle, walks=walks)
        assert not found.count
        assert found.norm_ratio < Tolerance().norm

    def test_no_order_is_an_excuse_where_the_original_compensates_its_sums(self, noise):
        oracle = (noise(16, 64) + 5).float().double()
        walks = [noise(16, 64, seed=s) * 2e-5 for s in (3, 4, 5)]
        assert judged(oracle, oracle + noise(16, 64, seed=2) * 2e-5, oracle, walks=walks).count

    def test_what_the_last_rounding_hides_is_known_from_elements_that_show_it(self, noise):
        oracle = noise(128, 128) + 4
        lost = 4e-5  # a fiftieth of the output's last place
        want, got = ((oracle + noise(128, 128, seed=s) * lost).half() for s in (1, 2))
        assert not judged(want, got, oracle, dtype="float16").count
        assert judged(want, oracle + noise(128, 128, seed=3) * 50 * lost, oracle, dtype="float16").count > 100

    def test_where_nothing_shows_a_thirty_second_of_the_last_place_may_be_lost(self):
        middle = [3.0 + 2**-10] * 16  # between two numbers of float16
        for off, refused in ((2e-5, 0), (2e-4, 16)):
            oracle = [m + off for m in middle]
            want, got = [3.0 + 2**-9] * 16, [3.0] * 16
            assert judged(want, got, oracle, dtype="float16").count == refused

    @pytest.mark.parametrize(
        ("dtype", "eps", "oracle"),
        [
            ("float32", 2.0**-23, 1.78e-39),
            ("float16", 2.0**-10, 1.1e-6),
            ("bfloat16", 2.0**-7, 1.0e-39),
            ("float64", 2.0**-52, 1.0e-320),
        ],
    )
    def test_what_underflows_at_every_step_may_be_a_few_of_the_smallest_numbers_off(self, dtype, eps, oracle):
        torch = pytest.importorskip("torch")
        kind = getattr(torch, dtype)
        smallest = torch.finfo(kind).tiny * torch.finfo(kind).eps
        right = torch.tensor([oracle] * 16, dtype=torch.float64)
        want = right.to(kind).double()
        for steps in (-2, -1, 1, 2):
            assert not judged(want, want + steps * smallest, right, dtype=dtype, eps=eps).count, steps
        assert judged(want, want + 20 * smallest, right, dtype=dtype, eps=eps).count == 16

    def test_a_weight_that_a_gpu_flushes_to_zero_is_allowed_at_the_scale_of_the_largest_element(self):
        torch = pytest.importorskip("torch")
        # Softmax weights of 2^-127 and below, times values of 500, beside a row of values of that size.
        right = torch.tensor([500.0] * 16 + [-4.94e-36] * 16, dtype=torch.float64)
        got = torch.tensor([500.0] * 16 + [-1.26e-36] * 16, dtype=torch.float64)
        want = right.to(torch.bfloat16)
        assert judged(want, got, right, dtype="bfloat16").count == 16
        assert not judged(want, got, right, dtype="bfloat16", flushed=True).count
        ones = right.clamp(max=1.0)
        assert judged(ones, got.clamp(max=1.0), ones, dtype="bfloat16", flushed=True).count == 16
        assert judged(want, got * 1e3, right, dtype="bfloat16", flushed=True).count == 32
        assert judged(want.double(), got, right, dtype="float64", eps=2.0**-52, flushed=True).count == 16

    @pytest.mark.parametrize(("dtype", "oracle"), [("float16", 1.1e-6), ("bfloat16", 1.0e-39)])
    def test_the_smallest_numbers_of_a_narrow_output_are_no_excuse_for_wider_arithmetic(self, dtype, oracle):
        torch = pytest.importorskip("torch")
        kind = getattr(torch, dtype)
        smallest = torch.finfo(kind).tiny * torch.finfo(kind).eps
        right = torch.tensor([oracle] * 16, dtype=torch.float64)
        want = right.to(kind).double()
        assert not judged(want, want, right, dtype=dtype).count
        assert judged(want, want + 2 * smallest, right, dtype=dtype).count == 16

    def test_an_error_that_is_small_but_everywhere_is_refused_in_norm(self, noise):
        oracle = noise(64, 64) + 6
        want = oracle + noise(64, 64, seed=1) * 1e-4
        found = judged(want, oracle + 5e-4, oracle)
        assert not found.count
        assert found.norm_ratio > Tolerance().norm
        assert judged(want, oracle + noise(64, 64, seed=2) * 1e-4, oracle).norm_ratio < 1.5

    @pytest.mark.parametrize(
        ("want", "got", "oracle", "accepted"),
        [
            (math.nan, math.nan, math.nan, True),
            (math.nan, 1.0, math.nan, False),
            (1.0, math.nan, 1.0, False),
            (math.inf, math.inf, math.inf, True),
            (math.inf, -math.inf, math.inf, False),
            (-math.inf, -math.inf, -math.inf, True),
            (math.inf, math.nan, math.inf, False),
            # The original overflows where the result itself does not.
            (math.inf, 70.0, 70.0, True),
            (math.inf, math.inf, 70.0, True),
            (math.nan, 70.0, 70.0, True),
            (math.inf, 71.0, 70.0, False),
            # The candidate does.
            (70.0, math.inf, 70.0, False),
            # Anything that rounds to float16 overflows here.
            (math.inf, math.inf, 65530.0, True),
            (math.inf, -math.inf, 65530.0, False),
        ],
    )
    def test_nan_and_infinity(self, want, got, oracle, accepted):
        found = judged([want, *[1.0] * 15], [got, *[1.0] * 15], [oracle, *[1.0] * 15], dtype="float16")
        assert (found.count == 0) is accepted

    def test_long_rows_and_short_ones_are_all_judged(self, noise):
        from tritonforge.worker.judging import row_length

        assert [row_length(s) for s in ((5,), (100, 3), (4, 300), (1 << 20,), (7, 2, 3, 5))] == [
            5,
            300,
            300,
            1 << 16,
            30,
        ]
        oracle = noise(70_001)
        got = oracle.clone()
        got[70_000] += 1
        assert judged(oracle, got, oracle).where == 70_000
