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
from tritonforge.store import CompiledCall, TriedVersion, keys, open_store

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


def test_versions_that_were_tried_come_back_each_in_its_last_state(tmp_path):
    def tried(text, outcome):
        return TriedVersion(text, "pairs", {"BLOCK": 64}, outcome, trial(text), (2.0, 1.9, 2.1), {"registers": 32})

    with open_store(tmp_path) as store:
        for text, outcome in (("a", "timed"), ("b", "timed"), ("c", "compile-error"), ("b", "refused")):
            store.put_tried("k", tried(text, outcome))
    with open_store(tmp_path) as store:
        found = store.tried("k")
        assert [(one.text, one.outcome) for one in found] == [("a", "timed"), ("c", "compile-error"), ("b", "refused")]
        assert [one.final for one in found] == [False, True, True]
        assert found[0] == tried("a", "timed")
        assert math.isinf(found[0].trial.verdict.worst_error)
        assert store.tried("another question") == ()


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


OTHER_GPU = TargetInfo("local", "local", "NVIDIA H200", "580", "2.11.0", "3.6.0")


def search_key(kernel=KERNEL, calls=(CALL,), target=TARGET, **changes):
    rest = {"texts": {"k.py": "t"}, "sources": [("/a.py", "1")], "context": {"arch": "sm_90"}}
    return keys.search_key(kernel, calls, target, **{**rest, **changes})


@pytest.mark.parametrize(
    "key",
    [
        lambda: search_key(target=OTHER_GPU),
        lambda: search_key(calls=(CALL, CALL)),
        lambda: search_key(calls=(replace(CALL, keywords=(("flag", Scalar(False)),)),)),
        lambda: search_key(calls=(replace(CALL, count=7),)),
        lambda: search_key(kernel=replace(KERNEL, code_hash="c0df")),
        lambda: search_key(kernel=replace(KERNEL, range=Range.of(4, 1, 10, 5))),
        lambda: search_key(texts={"k.py": "u"}),
        lambda: search_key(texts={"k.py": "t", "host.py": "t"}),
        lambda: search_key(sources=[("/a.py", "2")]),
        lambda: search_key(context={"arch": "sm_100"}),
    ],
)
def test_a_search_key_changes_with_whatever_decides_what_becomes_of_a_version(key):
    assert key() != search_key()


def test_a_search_key_ignores_how_long_the_recorded_calls_took():
    timed = replace(CALL, launches=tuple(replace(one, time_us=3.5) for one in CALL.launches))
    assert search_key(calls=(timed,)) == search_key()


def test_an_answer_is_one_to_a_question_and_what_was_asked_for():
    asked = {"budget": 60.0, "engines": ["rules"]}
    assert keys.answer_key("k", asked) == keys.answer_key("k", dict(reversed(asked.items())))
    assert len({keys.answer_key("k", asked), keys.answer_key("l", asked), keys.answer_key("k", {"budget": 61.0})}) == 3
