"""What goes into the store comes out the same, and a second run finds it."""

import math
from dataclasses import replace

import pytest

from tritonforge.domain.candidate import Candidate, Suggestion, Trial, Verdict
from tritonforge.domain.compilation import Compilation, LineInstructions, LineWork, Occupancy, Resources, Work
from tritonforge.domain.finding import Bottleneck
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import (
    Call,
    CallSite,
    Config,
    ExactValues,
    Launch,
    Problem,
    RecordedLaunch,
    Scalar,
    Tensor,
)
from tritonforge.domain.profile import Ceilings, LineHeat, Profile, TargetInfo, TimeDistribution
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.source import Edit, Range
from tritonforge.store import CompiledCall, keys, open_store

KERNEL = Kernel("k.py", "outer.add", Range.of(3, 1, 9, 5), Range.of(4, 5, 4, 8), (), code_hash="c0de")
TENSOR = Tensor((8, 4), (4, 1), "float16", values=ExactValues(b"\x00\xff\x80"))
PROBLEM = Problem((("x", TENSOR), ("n", Scalar(8)), ("eps", Scalar(math.inf))))
CONFIG = Config((("BLOCK", Scalar(64)),), (("num_warps", Scalar(4)),), (1, 1, 1))
LAUNCH = Launch("L1", "k.py", "outer.add", PROBLEM, CONFIG, CallSite("k.py", 20, "run"))
RECORDED = RecordedLaunch(
    "k.py", "outer.add", 4, PROBLEM.arguments, CONFIG.constexprs, CONFIG.options, (1, 1, 1), LAUNCH.call_site
)
CALL = Call("C1", "k.py", "run", (TENSOR,), (("flag", Scalar(True)),), launches=(RECORDED,))
TARGET = TargetInfo("offline", "offline", None, None, "2.13.0", "3.7.1")
COMPILATION = Compilation(
    "L1",
    "outer.add",
    "sm_90",
    "3.7.1",
    resources=Resources(32, 0, 1024),
    occupancy=Occupancy(0.75, 12, 48, "registers"),
    instructions={5: LineInstructions({"load_global": 4}, (16, 16))},
    work=Work({5: LineWork(1.0, load_bytes=64.0)}, dot_tile=(32, 32, 32)),
)

COMPILED = CompiledCall(3, (("/w/helpers.py", "5ha"),), ((RECORDED, COMPILATION),))


def trial(title: str) -> Trial:
    verdict = Verdict(True, "", ("8 × 4",), "the original", "2 ulp", math.inf, None, {"off-tile": "passed"}, "r1")
    candidate = Candidate(title, (Edit("k.py", 4, 9, "x"),), (("tiles", (("BLOCK", "128"),)),))
    return Trial(
        candidate, verdict, {"L1": 12.5}, measured={"L1": TimeDistribution(12.5, (12.0, 13.0), 30)}, accepted=True
    )


def test_every_kind_of_value_comes_back_equal_from_another_store(tmp_path):
    best = Suggestion(trial("b"), 2.0, (1.8, 2.2), "measured", "--- a\n+++ b\n")
    result = OptimizeResult(
        KERNEL,
        TARGET,
        (LAUNCH,),
        {"L1": 25.0},
        "measured",
        best,
        (trial("a"),),
        (Bottleneck("latency", 0.5, "derived"),),
    )
    profile = Profile(KERNEL, TARGET, LAUNCH, None, None, Bottleneck("unknown", 0, "derived"), lines={5: LineHeat(1.0)})
    ceilings = Ceilings("NVIDIA H200", 4300.0, {"fp16": 718.0}, 2.5)
    with open_store(tmp_path) as store:
        store.put_compiled("k", COMPILED)
        store.put_profile("k", profile)
        store.put_result("k", result)
        store.put_ceilings("580.1", {"triton": "3.6.0"}, ceilings)
    with open_store(tmp_path) as store:
        assert store.compiled("k") == COMPILED
        assert store.profile("k") == profile
        assert store.result_for("k") == result
        assert store.ceilings_for("NVIDIA H200", "580.1", {"triton": "3.6.0"}) == ceilings
        assert store.ceilings_for("NVIDIA H200", "580.2", {"triton": "3.6.0"}) is None
        assert store.compiled("other") is None


def test_calls_are_kept_by_origin_newest_first_and_know_when_they_are_stale(tmp_path):
    with open_store(tmp_path) as store:
        for origin, code in (("main", "c0de"), ("trace", "c0de"), ("main", "c1de")):
            store.put_calls("k.py", "outer.add", code_hash=code, site_hashes=("s",), calls=(CALL,), origin=origin)
        newest, older = store.calls_for("k.py", "outer.add")
        assert (newest.origin, newest.code_hash, older.origin) == ("main", "c1de", "trace")
        assert newest.calls[0].arguments == (TENSOR,)
        assert newest.recorded_at >= older.recorded_at > 0
        assert newest.fresh_for("c1de", ("s",))
        assert not newest.fresh_for("c0de", ("s",))
        assert not newest.fresh_for("c1de", ("t",))
        assert store.kernels_with_calls("k.py") == ("outer.add",)
        assert store.kernels_with_calls("k") == ()
        store.forget_calls("k.py", "outer.add", "trace")
        assert [r.origin for r in store.calls_for("k.py", "outer.add")] == ["main"]


def test_trials_come_back_in_the_order_they_were_made_each_candidate_once(tmp_path):
    with open_store(tmp_path) as store:
        for title in ("a", "b", "c", "b"):
            store.put_trial("k", trial(title))
        assert [t.candidate.title for t in store.trials_for("k")] == ["a", "c", "b"]
        assert math.isinf(store.trials_for("k")[0].verdict.worst_error)


def test_a_value_of_another_shape_is_a_miss_and_is_forgotten(tmp_path):
    with open_store(tmp_path) as store:
        store._put("compiled", "k", {"launch": "L1", "no": "longer"})
        store._database.put("compiled", "k2", "", b"not zlib")
        assert store.compiled("k") is None
        assert store.compiled("k2") is None
        assert store.size() == 0


VERSIONS = {"torch": "2.13.0", "triton": "3.7.1"}


def compiled_key(kernel=KERNEL, call=CALL, **changes):
    return keys.compiled_key(kernel, call, **{"arch": "sm_90", "versions": VERSIONS, "context": {}, **changes})


@pytest.mark.parametrize(
    "key",
    [
        lambda: compiled_key(arch="sm_100"),
        lambda: compiled_key(versions={**VERSIONS, "triton": "3.6.0"}),
        lambda: compiled_key(context={"environment": {"TRITON_X": "1"}}),
        lambda: compiled_key(kernel=replace(KERNEL, code_hash="c0df")),
        lambda: compiled_key(kernel=replace(KERNEL, name="other.add")),
        lambda: compiled_key(call=replace(CALL, keywords=(("flag", Scalar(False)),))),
        lambda: compiled_key(call=replace(CALL, arguments=(replace(TENSOR, alignment=8),))),
        lambda: compiled_key(call=replace(CALL, arguments=(replace(TENSOR, values=ExactValues(b"\x01\xff\x80")),))),
    ],
)
def test_a_compiled_key_changes_with_whatever_decides_what_is_launched_and_compiled(key):
    assert key() != compiled_key()


def test_a_compiled_key_ignores_where_the_kernel_stands_and_how_often_it_ran():
    moved = replace(KERNEL, range=Range.of(13, 1, 19, 5), name_range=Range.of(14, 5, 14, 8))
    assert compiled_key(kernel=moved) == compiled_key()
    assert (
        compiled_key(call=replace(CALL, count=7, launches=(replace(RECORDED, count=3, time_us=8.0),))) == compiled_key()
    )


def test_what_a_triton_compiles_for_is_remembered_for_that_triton(tmp_path):
    with open_store(tmp_path) as store:
        assert store.architectures(("python", "3.7.1")) == {}
        store.put_architectures(("python", "3.7.1"), {"sm_90": ""})
    with open_store(tmp_path) as store:
        assert store.architectures(("python", "3.7.1")) == {"sm_90": ""}
        assert store.architectures(("python", "3.9.0")) == {}


def test_keys_do_not_depend_on_the_order_of_names_but_on_the_kind():
    swapped = Problem(tuple(reversed(PROBLEM.arguments)))
    assert keys.problem_key(swapped) == keys.problem_key(PROBLEM)
    assert keys.content_key("a", 1) != keys.content_key("b", 1)
    assert keys.content_key("a", (1, 2)) != keys.content_key("a", (2, 1))


def test_a_result_key_changes_with_source_target_launches_and_options():
    def key(target=TARGET, launches=(LAUNCH,), text="t", budget=60):
        return keys.result_key(KERNEL, launches, target, sources={"k.py": text}, options={"budget": budget})

    other = TargetInfo("local", "local", "NVIDIA H200", "580", "2.11.0", "3.6.0")
    assert len({key(), key(target=other), key(launches=(LAUNCH, LAUNCH)), key(text="u"), key(budget=61)}) == 5
    assert key() == key()
