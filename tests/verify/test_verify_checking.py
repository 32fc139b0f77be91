"""How a check goes: what runs first, what is spread over lanes, what a replay repeats, what refuses without any input."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.baseline import GpuState
from tritonforge.domain.coverage import KernelCoverage
from tritonforge.domain.launch import Call, CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import (
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
    Sanitize,
    SanitizeResult,
    Tolerance,
)
from tritonforge.jobs import JobError
from tritonforge.verify import Gate, Place, directly, read_id
from tritonforge.verify.comparing import Comparer, Ran
from tritonforge.verify.direct_kernels import Pair
from tritonforge.verify.honesty import covered
from tritonforge.verify.inputs import Variation
from tritonforge.verify.judgement import Evidence, Tried
from tritonforge.verify.launched import Launched
from tritonforge.verify.once import Once
from tritonforge.verify.originals import Originals
from tritonforge.verify.resizing import form_of
from tritonforge.verify.sharing import Planned

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
CALL = Call("c", "k.py", "copy", (Tensor((4096,), (1,), "float32"),))
EQUAL = InputOutcome("equal", worst_error=0.0, outputs=1, oracle="original")
LAUNCH = RecordedLaunch("k.py", "kernel", 6, (), (("B", Scalar(64)),), (), (64, 1, 1), CallSite("k.py", 14, "copy"))
IEEE = """module {
  tt.func public @k(%x: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.load %x : !tt.ptr<f32> loc(#loc)
    %1 = arith.mulf %0, %0 : f32 loc(#loc)
  }
}"""
HALF = IEEE.replace("ptr<f32>", "ptr<f16>").replace(": f32", ": f16")


def candidate(*changes: str) -> Program:
    text = TEXT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return Program("/w", "k.py", (("k.py", text),))


LARGER = candidate("B=64", "B=128", "numel(), 64", "numel(), 128")


class Scripted:
    """A worker that answers with what `answer(request, call)` says of inputs, and `extra` of everything else."""

    def __init__(self, answer, lanes=1, *, extra=None, checks=(), coverage=(), ttir=(IEEE, IEEE)) -> None:
        self.answer, self.extra, self.checks, self.coverage, self.ttir = answer, extra, checks, coverage, ttir
        self.hello = SimpleNamespace(lanes=lanes)
        self.requests: list = []

    async def run(self, request, **_):
        self.requests.append(request)
        if isinstance(request, Compile):
            text = self.ttir[request.program != ORIGINAL]
            return CompileResult((CompiledLaunch(LAUNCH, "sm_90", "3.7.1", {"ttir": text}),))
        if isinstance(request, LookAtGpu):
            return GpuState()
        if not isinstance(request, (Compare, CompareOnDevice)):
            return self.extra(request)
        if request.candidate == ORIGINAL:
            return CompareResult((EQUAL,) * len(request.inputs))
        outcomes = []
        for call in request.inputs:
            outcomes.append(self.answer(request, call))
            if outcomes[-1].status in {"different", "candidate-failed"}:
                break
        return CompareResult(tuple(outcomes), tuple(self.checks), tuple(self.coverage))

    def compared(self, of=Compare) -> list:
        return [one for one in self.requests if isinstance(one, of) and one.candidate != ORIGINAL]


def checked(worker, program=LARGER, **options):
    gate = Gate(worker, ORIGINAL, (CALL,), seed=7, **options)
    return asyncio.run(gate.check(program))


def size(call) -> int:
    return call.arguments[0].shape[0]


def test_a_broken_rule_refuses_before_anything_is_compiled_or_run():
    worker = Scripted(lambda *_: EQUAL)
    verdict = checked(worker, candidate("return o", "return x.clone().mul(1)"), arch="sm_90").verdict
    assert not verdict.accepted
    assert verdict.reason.startswith("line 16: the candidate computes with the library")
    assert verdict.checks["source rules"] == f"failed: {verdict.reason}"
    assert (worker.requests, verdict.inputs) == ([], ())


def test_lower_precision_refuses_before_anything_runs_and_is_told_apart():
    worker = Scripted(lambda *_: EQUAL, ttir=(IEEE, HALF))
    verdict = checked(worker, arch="sm_90").verdict
    assert not verdict.accepted
    assert verdict.lower_precision
    assert verdict.checks["precision"] == "failed: the candidate computes in fp16 where the original uses fp32"
    assert worker.compared() == []


def test_higher_precision_passes():
    verdict = checked(Scripted(lambda *_: EQUAL, ttir=(HALF, IEEE)), arch="sm_90").verdict
    assert (verdict.accepted, verdict.lower_precision, verdict.checks["precision"]) == (True, False, "passed")


def test_without_an_architecture_precision_is_not_compared_and_that_is_said():
    assert checked(Scripted(lambda *_: EQUAL)).verdict.checks["precision"].startswith("skipped: ")


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_every_input_runs_once_whatever_the_lanes(lanes):
    worker = Scripted(lambda *_: EQUAL, lanes)
    verdict = checked(worker).verdict
    inputs = [call for request in worker.compared() if request.again for call in request.inputs]
    assert verdict.accepted
    assert len(inputs) == len({call.seed for call in inputs}) == sum("equal" in text for text in verdict.inputs)
    quick = [len(request.inputs) for request in worker.compared() if not request.again]
    assert quick == ([1, 1] if lanes > 2 else [])
    assert {call.seed for call in inputs[:2]} == {7, 8}
    assert 2 in [len(request.inputs) for request in worker.compared() if request.inputs[0].seed == 7]


@pytest.mark.parametrize("lanes", [1, 3])
def test_no_job_has_more_inputs_than_its_time_is_for(lanes):
    worker = Scripted(lambda *_: EQUAL, lanes)
    planned = [Planned(Place("call", 0, i), Variation(replace(CALL, seed=i), "")) for i in range(200)]
    ran = asyncio.run(Comparer(worker, ORIGINAL, LARGER, Tolerance()).run(planned, Precision(2.0**-23)))
    sizes = [len(request.inputs) for request in worker.compared()]
    assert [one.place.index for one in ran.tried] == list(range(200))
    assert 12 < max(sizes) <= 24
    assert lanes == 1 or max(sizes) - min(sizes) <= 1


def test_what_the_gpu_runs_is_compiled_on_all_lanes_before_each_form_once():
    class Refusing(Scripted):
        async def run(self, request, **options):
            answer = await super().run(request, **options)
            if isinstance(request, Compile) and not request.artefacts:
                raise JobError(Failure("compile-error", "no such instruction"))
            return answer

    for lanes in (1, 3):
        worker = Refusing(lambda *_: EQUAL, lanes)
        checked(worker, arch="sm_90", on_device=True)
        (there,) = (i for i, one in enumerate(worker.requests) if isinstance(one, CompareOnDevice))
        ahead = [one for one in worker.requests[:there] if isinstance(one, Compile) and not one.artefacts]
        forms = {form_of(call) for call in worker.requests[there].inputs}
        assert len(forms) < len(worker.requests[there].inputs)
        for program in (ORIGINAL, LARGER):
            compiled = [form_of(one.call) for one in ahead if one.program == program]
            assert len(compiled) == len(set(compiled))
            assert set(compiled) == (forms if lanes > 1 else set())


def test_the_original_is_asked_what_it_allows_only_for_what_passes_the_first_inputs():
    for outcome, asked in ((InputOutcome("different", "wrong", outputs=1), False), (EQUAL, True)):
        worker = Scripted(lambda *_, outcome=outcome: outcome)
        checked(worker)
        assert any(one.candidate == ORIGINAL and one.runs == "again" for one in worker.requests) is asked


def test_over_several_lanes_the_first_failing_input_of_the_plan_is_told():
    def answer(_, call):
        return InputOutcome("different", "wrong", outputs=1) if size(call) <= 1 else EQUAL

    reasons = {checked(Scripted(answer, lanes)).verdict.reason for lanes in (1, 3)}
    assert len(reasons) == 1


def test_a_replay_id_names_the_input_and_runs_it_first():
    def answer(_, call):
        return InputOutcome("different", "wrong", outputs=1) if size(call) == 1 else EQUAL

    first = checked(Scripted(answer)).verdict
    seed, place = read_id(first.replay)
    assert (seed, place.where, place.call) == (7, "call", 0)
    again = Scripted(answer)
    second = checked(again, first=place).verdict
    (request,) = again.compared()
    assert [size(call) for call in request.inputs] == [1]
    assert (second.reason, second.replay) == (first.reason, first.replay)


def test_a_replayed_input_that_passes_now_is_followed_by_the_whole_check():
    worker = Scripted(lambda *_: EQUAL)
    verdict = checked(worker, first=Place("call", 0, 3)).verdict
    first, *rest = worker.compared()
    others = [call for request in rest for call in request.inputs]
    assert verdict.accepted
    assert len(first.inputs) == 1
    assert first.inputs[0] not in others
    assert sum("equal" in text for text in verdict.inputs) == 1 + len(others)


def test_an_id_of_an_input_that_there_is_not_repeats_the_whole_check():
    assert checked(Scripted(lambda *_: EQUAL), first=Place("call", 4, 0)).verdict.accepted
    assert checked(Scripted(lambda *_: EQUAL), first=Place("direct", 0, 99)).verdict.accepted


@pytest.mark.parametrize("text", ["", "xyz", "0a1b2c3d-", "0a1b2c3d-q0.1", "0a1b2c3d-c0", "123456789"])
def test_what_is_no_replay_id_is_told_so(text):
    assert read_id(text) is None


@pytest.mark.parametrize("place", [None, Place("call", 0, 12), Place("direct", 0, 3), Place("device", 2, 0)])
def test_a_replay_id_reads_as_it_was_written(place):
    assert read_id(Place.id(0x0A1B2C3D, place)) == (0x0A1B2C3D, place)


@pytest.mark.parametrize("kind", ["timeout", "crashed", "memory", "cuda-error"])
def test_a_candidate_that_takes_its_process_down_is_refused(kind):
    def answer(*_):
        raise JobError(Failure(kind, "It took too long."))

    verdict = checked(Scripted(answer)).verdict
    assert not verdict.accepted
    assert verdict.reason == "it could not be run to the end: It took too long."
    assert verdict.checks["results"].startswith("failed: ")


def test_a_worker_that_cannot_do_its_part_says_nothing_about_a_candidate():
    def answer(*_):
        raise JobError(Failure("unsupported", "No torch."))

    with pytest.raises(JobError):
        checked(Scripted(answer))


UNMASKED = candidate("tl.load(x + c, mask=c < N)", "tl.load(x + c)")


def test_a_dropped_mask_passes_where_odd_sizes_came_out_equal():
    assert checked(Scripted(lambda *_: EQUAL), UNMASKED).verdict.accepted


def test_a_dropped_mask_is_refused_where_only_even_sizes_say_anything():
    def answer(_, call):
        return InputOutcome("original-failed", "no tails here") if size(call) % 2 and size(call) > 1 else EQUAL

    verdict = checked(Scripted(answer), UNMASKED).verdict
    assert not verdict.accepted
    assert verdict.reason.startswith("line 9: the candidate loads x without the mask")
    assert checked(Scripted(answer), LARGER).verdict.accepted


def coverage(line: int, side: str = "") -> KernelCoverage:
    return KernelCoverage(
        "kernel", "/w/k.py", 3, 2, 2, 1, () if side else (line,), ((line, side),) if side else ()
    )  # fmt: skip


NEW_BRANCH = candidate("    v = tl.load", "    if N > 4096:\n        c += 1\n    v = tl.load")


def test_new_code_that_no_input_ran_is_refused():
    verdict = checked(Scripted(lambda *_: EQUAL, coverage=[coverage(10)]), NEW_BRANCH).verdict
    assert verdict.reason == "line 10: the candidate adds code that ran on no input"
    assert verdict.checks["coverage"].startswith("failed: ")


def test_a_side_of_a_new_branch_that_no_input_took_is_refused():
    verdict = checked(Scripted(lambda *_: EQUAL, coverage=[coverage(9, "false")]), NEW_BRANCH).verdict
    assert verdict.reason == "line 9: the candidate adds a branch that no input took: false"


def test_a_helper_of_another_package_is_no_code_of_the_candidate():
    helper = replace(coverage(9, "false"), file="/opt/triton/language/random.py")
    assert checked(Scripted(lambda *_: EQUAL, coverage=[helper]), NEW_BRANCH).verdict.accepted


def test_lines_of_tritons_own_library_are_no_lines_of_the_candidate():
    program = Program("/w", "k.py", ())
    own = KernelCoverage("kernel", "/w/k.py", lines=8, lines_run=8)
    library = KernelCoverage("max", "/site-packages/triton/language/standard.py", 9, 3, missed_lines=(180, 181))
    assert covered((own, library), program) == "passed"
    missed = covered((replace(own, lines_run=7, missed_lines=(5,)), library), program)
    assert missed == "skipped: 7 of 8 lines ran; not line 5"
    assert covered((library,), program) == covered((), program) == "skipped: nothing was interpreted"


def test_code_of_the_original_that_no_input_ran_is_only_told():
    verdict = checked(Scripted(lambda *_: EQUAL, coverage=[coverage(9)]), LARGER).verdict
    assert verdict.accepted
    assert verdict.checks["coverage"] == "skipped: 2 of 3 lines ran; not line 9"


def test_checks_of_how_results_came_about_are_named_and_the_worst_is_kept():
    failing = [
        ("host computation", "passed"),
        ("kept results", "failed: kept"),
        ("write conflicts", "skipped: one program"),
    ]
    checks = checked(Scripted(lambda *_: EQUAL, lanes=3, checks=failing)).verdict.checks
    assert (checks["library fallback"], checks["repeated calls"]) == ("passed", "failed: kept")
    assert checks["write conflicts"] == "skipped: one program"


def test_an_honesty_check_that_refuses_an_input_does_not_fail_its_results():
    outcome = InputOutcome("different", "two programs write c[3]", outputs=1, check="write conflicts")
    worker = Scripted(lambda *_: outcome, checks=[("write conflicts", "failed: two programs write c[3]")])
    checks = checked(worker).verdict.checks
    assert checks["write conflicts"].startswith("failed")
    assert checks["results"] == "passed"


def test_every_check_of_a_verdict_says_something():
    for verdict in (checked(Scripted(lambda *_: EQUAL)).verdict, checked(Scripted(lambda *_: EQUAL), UNMASKED).verdict):
        assert set(verdict.checks) >= {"precision", "coverage", "sanitiser", "kernels compared directly", "strides"}
        assert all(said == "passed" or said.startswith(("failed: ", "skipped: ")) for said in verdict.checks.values())


def test_the_gpu_is_told_what_the_interpreter_learnt_of_the_originals_precision():
    outcomes = [InputOutcome("equal", outputs=1, precision=Precision(2.0**-23, lost)) for lost in (1e-7, 3e-7, 2e-7)]

    def answer(request, call):
        return EQUAL if isinstance(request, CompareOnDevice) else outcomes[size(call) % 3]

    worker = Scripted(answer)
    checked(worker, on_device=True)
    (there,) = worker.compared(CompareOnDevice)
    assert there.precision == Precision(2.0**-23, 3e-7)


@pytest.mark.parametrize("on_device", [True, False])
def test_the_gpu_is_made_ready_once_beside_what_needs_none(on_device):
    worker = Scripted(lambda *_: EQUAL)
    gate = Gate(worker, ORIGINAL, (CALL,), seed=7, on_device=on_device)

    async def twice():
        await gate.check(LARGER)
        await gate.check(UNMASKED)

    asyncio.run(twice())
    asked = [type(one) for one in worker.requests]
    assert asked.count(LookAtGpu) == on_device
    if on_device:
        assert asked.index(LookAtGpu) < asked.index(CompareOnDevice)


def sanitised(found, *, on_device=True):
    """Return the verdict after a sanitiser found `found[0]` in the candidate and `found[1]` in the original."""

    def extra(request):
        assert isinstance(request, Sanitize)
        errors = found[request.program == ORIGINAL]
        return SanitizeResult(errors, ("memcheck",), "" if errors or found[2] else "there is no compute-sanitizer")

    gate = Gate(Scripted(lambda *_: EQUAL, extra=extra), ORIGINAL, (CALL,), seed=7, on_device=on_device)

    async def go():
        return await gate.sanitised(LARGER, (await gate.check(LARGER)).verdict)

    return asyncio.run(go())


def test_what_a_sanitiser_finds_in_the_candidate_alone_refuses_it():
    verdict = sanitised((("a race at line 9",), (), True))
    assert not verdict.accepted
    assert verdict.checks["sanitiser"] == "failed: a race at line 9"


def test_what_a_sanitiser_finds_in_both_is_no_fault_of_the_candidates():
    verdict = sanitised((("a race at line 9",), ("a race at line 9",), True))
    assert verdict.accepted
    assert verdict.checks["sanitiser"].startswith("skipped: the original itself does not pass it")


def test_a_sanitiser_that_finds_nothing_or_is_not_there_accepts():
    assert sanitised(((), (), True)).checks["sanitiser"] == "passed"
    absent = sanitised(((), (), False))
    assert (absent.accepted, absent.checks["sanitiser"]) == (True, "skipped: there is no compute-sanitizer")
    assert sanitised((("a race",), (), True), on_device=False).accepted


def test_what_a_buffer_means_is_asked_on_an_input_that_the_original_takes(monkeypatch):
    asked = []

    async def meaning(_worker, _original, _candidate, call, *_, **__):
        asked.append(call)
        return "it means something else"

    monkeypatch.setattr(directly, "other_meaning", meaning)
    kernel = analyze(TEXT, "k.py").kernels[0]
    failed = InputOutcome("original-failed", "no tails here")
    calls = [replace(CALL, seed=seed) for seed in range(3)]
    evidence = Evidence(7, Tolerance(), on_device=False, reference="")
    for index, outcome in enumerate((failed, replace(EQUAL, outputs=0), EQUAL)):
        evidence.tried.append(Tried(Variation(calls[index], ""), outcome, Place("call", 0, index)))
    worker = Scripted(lambda *_: EQUAL)
    originals = Originals(worker, ORIGINAL, (CALL,), 7, Tolerance(), "sm_90", kernel)
    comparer = Comparer(worker, ORIGINAL, LARGER, Tolerance())
    one = directly.Directly(originals, LARGER, kernel, Launched(()), Launched(()), evidence, comparer)
    assert asyncio.run(one._other_meaning(Pair(kernel, kernel), "sums_ptr")) == "it means something else"
    assert asked == [calls[2]]


@pytest.mark.parametrize(("recorded", "refused"), [(False, False), (True, True)])
def test_a_difference_where_what_the_original_writes_overlaps_counts_only_if_it_always_does(recorded, refused):
    kernel = analyze(TEXT, "k.py").kernels[0]
    worker = Scripted(lambda *_: EQUAL)
    originals = Originals(worker, ORIGINAL, (CALL,), 7, Tolerance(), "sm_90", kernel)
    evidence = Evidence(7, Tolerance(), on_device=False, reference="")
    one = directly.Directly(
        originals, LARGER, kernel, Launched(()), Launched(()), evidence, Comparer(worker, ORIGINAL, LARGER, Tolerance())
    )
    place, launched = Place("direct", 0, 0), Variation(CALL, "rows that overlap")
    different = InputOutcome("different", "o differs", outputs=1, overlapping=True)
    ran = Ran([Tried(launched, different, place)])

    async def compare():
        one._pairs = (Pair(kernel, kernel),)
        groups = await originals._groups_of(0)
        originals._groups = Once()
        await originals._groups.get(0, partial(_returned, replace(groups, overlapping=recorded)))
        await one._ran.get(0, partial(_returned, directly.LaunchedDirectly((Planned(place, launched),), (), "", ran)))
        await one.compare()

    asyncio.run(compare())
    assert evidence.over is refused
    said = evidence.made[directly.DIRECTLY]
    assert said == "failed: o differs (rows that overlap)" if refused else "skipped: what the original writes" in said


async def _returned(value):
    return value
