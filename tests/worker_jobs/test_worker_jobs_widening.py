"""Kernels in float64: what the original would compute if nothing were rounded is what candidates are judged by.

A variant that rounds less than the original is nearer to that than the original itself.
"""

import pytest

from tritonforge.domain.launch import Call, Distribution, Tensor
from tritonforge.domain.messages import Compare

pytestmark = pytest.mark.triton


def tensor(*shape, dtype="float16", **kwargs):
    strides = (shape[1], 1) if len(shape) == 2 else (1,)
    return Tensor(shape, strides, dtype, **kwargs)


@pytest.fixture
def compare(interpret_lane, program):
    def run(original, candidate, *arguments):
        first, second = (program("widened.py", ("run = None", f"run = {n}")) for n in (original, candidate))
        return interpret_lane.do(Compare(first, second, (Call("c", "widened.py", "run", arguments),))).outcomes[0]

    return run


POSITIVE = Distribution("uniform", low=0.0, high=1.0)


@pytest.mark.parametrize(
    ("original", "candidate", "arguments"),
    [
        ("total_fp16", "total_fp32", (tensor(2048, values=POSITIVE),)),
        ("chain_bf16", "chain_fp32", (tensor(256, dtype="bfloat16"),)),
        ("dot_fp16", "dot_fp32", (tensor(32, 32), tensor(32, 32))),
        ("pipeline_fp16", "pipeline_fp32", (tensor(300, values=Distribution("uniform", low=-2.0, high=1.0)),)),
        ("atomic_fp16", "atomic_fp32", (tensor(64),)),
    ],
)
def test_nothing_rounds_in_float64(compare, original, candidate, arguments):
    outcome = compare(original, candidate, *arguments)
    assert outcome.status == "equal", outcome.detail
    assert (outcome.oracle, outcome.note) == ("widened", "")
    assert outcome.worst_error < 2e-6, outcome
    assert outcome.original_error > 1e-4, outcome


@pytest.mark.parametrize(
    ("original", "candidate", "arguments"),
    [
        ("total_fp32", "total_fp16", (tensor(2048, values=POSITIVE),)),
        ("chain_fp32", "chain_bf16", (tensor(256, dtype="bfloat16"),)),
        ("dot_fp32", "dot_fp16", (tensor(32, 32), tensor(32, 32))),
        ("pipeline_fp32", "pipeline_fp16", (tensor(300, values=Distribution("uniform", low=-2.0, high=1.0)),)),
    ],
)
def test_what_rounds_more_than_the_original_is_refused(compare, original, candidate, arguments):
    outcome = compare(original, candidate, *arguments)
    assert outcome.status == "different", outcome
    assert outcome.worst_error > 10 * outcome.original_error


def test_the_precision_that_the_original_accumulates_in_is_found(compare):
    for original, eps in (("total_fp16", 2.0**-10), ("total_fp32", 2.0**-23)):
        precision = compare(original, original, tensor(64, values=POSITIVE)).precision
        assert precision is not None
        assert precision.eps == eps
        assert (precision.lost > 1e-5) is (eps > 1e-5)


def test_casts_to_whole_numbers_still_truncate(compare):
    outcome = compare("truncated", "truncated", tensor(64, dtype="float32"))
    assert (outcome.status, outcome.oracle, outcome.note) == ("equal", "widened", "")


def test_where_float64_takes_another_way_the_original_is_the_oracle_and_that_is_said(compare):
    outcome = compare("shifted", "shifted", tensor(64, dtype="float32"))
    assert (outcome.status, outcome.oracle) == ("equal", "original")
    assert "whole numbers as returned[0]" in outcome.note


def test_bit_casts_see_the_rounded_value_and_give_one_that_is_carried_on(compare):
    outcome = compare("flip_bits", "flip_sign", tensor(64))
    assert outcome.status == "equal", outcome.detail
    assert outcome.oracle == "widened"
    assert 0 < outcome.original_error < 1e-3


def test_a_candidate_that_does_not_overflow_where_the_original_does_is_right(compare):
    large = tensor(64, values=Distribution("uniform", low=2000.0, high=2100.0))
    outcome = compare("mean_fp16", "mean_fp32", large)
    assert (outcome.status, outcome.oracle) == ("equal", "widened"), outcome.detail
    outcome = compare("mean_fp32", "mean_fp16", large)
    assert outcome.status == "different"
    assert "inf instead of 20" in outcome.detail
