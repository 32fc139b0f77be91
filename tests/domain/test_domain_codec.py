"""Nouns survive the wire, wrong messages are refused with their place, edits are exact."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonforge.domain.codec import CodecError, decode, encode
from tritonforge.domain.launch import (
    Call,
    Distribution,
    Entries,
    ExactValues,
    Items,
    KernelLaunch,
    Opaque,
    Scalar,
    Symbol,
    Tensor,
    is_repeatable,
    tensors_of,
)
from tritonforge.domain.messages import JOBS, Compare, Compile, Program
from tritonforge.domain.source import Edit, Position, Range, apply_edits

policies = st.one_of(
    st.builds(Distribution, kind=st.sampled_from(["normal", "uniform", "zeros"]), mean=st.floats(), low=st.floats()),
    st.builds(ExactValues, st.binary(max_size=40)),
)
extents = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)
tensors = st.builds(
    Tensor, extents, extents, st.sampled_from(["float16", "int64"]), buffer=st.integers(-1, 9), values=policies
)
scalars = st.builds(Scalar, st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)))
leaves = st.one_of(
    tensors, scalars, st.builds(Symbol, st.just("dtype"), st.text(max_size=8)), st.builds(Opaque, st.text())
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Items, st.sampled_from(["list", "tuple"]), st.lists(inner, max_size=3).map(tuple)),
        st.builds(Entries, st.lists(st.tuples(st.text(max_size=4), inner), max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
calls = st.builds(
    Call,
    st.text(max_size=12),
    st.text(max_size=12),
    st.text(max_size=12),
    st.lists(values, max_size=3).map(tuple),
    st.lists(st.tuples(st.text(max_size=4), values), max_size=3).map(tuple),
    kernel_launch=st.one_of(st.none(), st.builds(KernelLaunch, st.just(("cdiv(n, 64)",)))),
)


def over_the_wire(kind, value):
    return decode(kind, json.loads(json.dumps(encode(value))))


@given(calls)
def test_a_call_survives_the_wire(call):
    # repr, because NaN differs from itself.
    assert repr(over_the_wire(Call, call)) == repr(call)


@given(calls)
def test_a_request_with_calls_survives_the_wire(call):
    request = Compare(Program("/w", "a.py", (("a.py", "x = 1"),)), Program("/w", "b.py"), (call, call))
    assert repr(over_the_wire(Compare, request)) == repr(request)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-320])
def test_floats_that_json_cannot_say_survive(value):
    (found,) = over_the_wire(Items, Items("list", (Scalar(value),))).items
    assert repr(found.value) == repr(value)


def test_true_one_and_one_point_zero_stay_apart():
    items = (Scalar(True), Scalar(1), Scalar(1.0))
    assert [type(i.value) for i in over_the_wire(Items, Items("list", items)).items] == [bool, int, float]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"arch": 90}, "arch"),
        ({"program": {"root": "/w"}}, "file"),
        ({"kernels": "k"}, "kernels"),
        ({"call": {"$": "Tensor"}}, "call"),
    ],
)
def test_a_message_of_the_wrong_shape_is_refused_with_its_place(change, place):
    good = encode(Compile(Program("/w", "a.py"), Call("", "a.py", "f", ()), "sm_90"))
    with pytest.raises(CodecError, match=place):
        decode(Compile, {**good, **change})


def test_an_unknown_kind_in_a_union_is_refused():
    good = encode(Items("list", (Scalar(1),)))
    good["items"][0]["$"] = "Program"
    with pytest.raises(CodecError, match="Program"):
        decode(Items, good)


def test_every_job_says_its_lane_and_its_result():
    for name, job in JOBS.items():
        assert job.lane in {"compile", "interpret", "device"}, name
        assert isinstance(job.result, type), name


def test_a_call_with_an_opaque_value_anywhere_cannot_be_repeated():
    assert is_repeatable(Items("list", (Scalar(1), Entries((("a", Scalar(2)),)))))
    assert not is_repeatable(Items("list", (Scalar(1), Entries((("a", Opaque("<socket>")),)))))


def test_tensors_are_found_at_any_depth():
    x = Tensor((2,), (1,), "float32")
    assert tensors_of(Items("list", (x, Entries((("a", Items("tuple", (x,))),))))) == (x, x)


def test_edits_are_applied_from_their_offsets_into_the_original():
    edits = (Edit("a.py", 4, 6, "64"), Edit("a.py", 0, 1, "y"))
    assert apply_edits("x = 32 # é", edits) == "y = 64 # é"


@pytest.mark.parametrize(
    "edits",
    [(Edit("a", 0, 3, ""), Edit("a", 2, 4, "")), (Edit("a", 3, 2, ""),), (Edit("a", 0, 99, ""),)],
)
def test_overlapping_or_outlying_edits_are_refused(edits):
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits("abcdef", edits)


def test_a_range_excludes_its_end():
    where = Range.of(1, 5, 2, 1)
    assert where.contains(Position(1, 5))
    assert where.contains(Position(1, 80))
    assert not where.contains(Position(2, 1))
