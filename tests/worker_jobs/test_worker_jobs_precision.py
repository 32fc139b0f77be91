"""Variants of kernels that are as exact as the original pass; those that lose precision, each in its own way, do not.

Each case ends with errors as they were measured: the candidate's and the original's, against the original in float64,
relative to the output's largest value. How those that pass relate to those that do not is what the tolerance rests on.
"""

import pytest

from tritonforge.domain.launch import Call, Distribution, Hostile, Tensor
from tritonforge.domain.messages import Compare

pytestmark = pytest.mark.triton

NORMAL = Distribution()
POSITIVE = Distribution("uniform", low=0.0, high=1.0)
OFFSET = Distribution("normal", mean=100.0, std=1.0)
FAR_OFFSET = Distribution("normal", mean=1000.0, std=1.0)
SORTED = Hostile(("descending",), "rows")
LARGE = Distribution("normal", mean=0.0, std=30.0)


def tensor(*shape, dtype="float32", values=NORMAL):
    return Tensor(shape, (shape[1], 1) if len(shape) == 2 else (1,), dtype, values=values)


def rows(dtype="float32", values=NORMAL, shape=(8, 200)):
    return (tensor(*shape, dtype=dtype, values=values),)


def with_weight(dtype):
    return (*rows(dtype), tensor(200, dtype=dtype))


def pair(dtype):
    return (tensor(1000, dtype=dtype), tensor(1000, dtype=dtype))


def factors(dtype):
    return (tensor(40, 150, dtype=dtype), tensor(150, 40, dtype=dtype))


@pytest.fixture
def compare(interpret_lane, program):
    def run(original, candidate, arguments):
        first, second = (program("judged.py", ("run = None", f"run = {n}")) for n in (original, candidate))
        return interpret_lane.do(Compare(first, second, (Call("c", "judged.py", "run", arguments),))).outcomes[0]

    return run


AS_EXACT = [
    ("sum_narrow", "sum_wide", rows(), (7.9e-08, 7.9e-08)),
    ("sum_narrow", "sum_split", rows("float16", OFFSET), (3.4e-04, 3.4e-04)),
    ("sum_wide", "sum_narrow", rows("float32", OFFSET), (7.6e-08, 9.4e-08)),
    ("sum_wide", "sum_narrow", rows("bfloat16", POSITIVE), (2.2e-03, 2.2e-03)),
    ("kahan_dropped", "kahan", rows(values=POSITIVE, shape=(512, 64)), (5.6e-08, 9.2e-07)),
    # Eight lanes add what 256 added: of sorted values, their partial sums dwarf the result.
    ("sum_split", "sum_in_few_lanes", rows(values=SORTED, shape=(16, 1500)), (1.7e-06, 1.0e-07)),
    ("softmax", "softmax_exp2", rows(), (1.5e-07, 8.5e-08)),
    ("softmax", "softmax_exp2", rows(values=LARGE), (8.4e-07, 5.7e-08)),
    ("softmax", "softmax_exp2", rows("float16", OFFSET), (1.9e-04, 1.9e-04)),
    ("softmax", "softmax_online", rows(values=LARGE), (6.7e-08, 5.7e-08)),
    ("softmax", "softmax_online", rows("bfloat16"), (1.7e-03, 1.7e-03)),
    ("variance", "variance_welford", rows(shape=(8, 256)), (7.5e-08, 4.8e-08)),
    ("variance", "variance_welford", rows(values=FAR_OFFSET, shape=(8, 256)), (4.1e-06, 6.8e-08)),
    ("variance", "variance_of_squares", rows(shape=(8, 256)), (1.5e-07, 4.8e-08)),
    ("norm", "norm_rsqrt", with_weight("float32"), (7.5e-08, 7.5e-08)),
    ("norm", "norm_rsqrt", with_weight("bfloat16"), (1.6e-03, 1.6e-03)),
    ("affine", "affine_fused", pair("float32"), (4.9e-08, 4.9e-08)),
    ("affine", "affine_fused", pair("float16"), (2.1e-04, 2.1e-04)),
    ("product", "product_tiled", factors("float32"), (1.8e-07, 1.4e-07)),
    ("product", "product_tiled", factors("float16"), (3.5e-04, 3.5e-04)),
    ("product", "product_tiled", factors("bfloat16"), (2.8e-03, 2.8e-03)),
]


@pytest.mark.parametrize(("original", "candidate", "arguments", "measured"), AS_EXACT)
def test_what_is_as_exact_as_the_original_passes(compare, original, candidate, arguments, measured):
    outcome = compare(original, candidate, arguments)
    assert outcome.status == "equal", outcome.detail
    assert outcome.oracle == "widened"
    assert (outcome.worst_error, outcome.original_error) == pytest.approx(measured, rel=0.5)


LESS_EXACT = [
    ("variance", "variance_of_squares", rows(values=OFFSET, shape=(8, 256)), (1.6e-03, 7.0e-08)),
    ("variance", "variance_of_squares", rows(values=FAR_OFFSET, shape=(8, 256)), (1.4e-01, 6.8e-08)),
    ("product", "product_tf32", factors("float32"), (3.7e-04, 1.4e-07)),
    ("product", "product_fp16", factors("float16"), (6.6e-04, 3.5e-04)),
    ("sum_narrow", "sum_in_fp16", rows("float16", POSITIVE), (3.2e-04, 2.7e-04)),
    ("softmax", "softmax_bf16", rows(), (1.1e-03, 8.5e-08)),
    ("softmax", "softmax_bf16", rows("float16"), (1.3e-03, 2.7e-04)),
    ("softmax", "softmax_bf16", rows("bfloat16", LARGE), (2.0e-03, 1.9e-03)),
    ("norm", "norm_bf16", with_weight("float32"), (2.6e-03, 7.5e-08)),
    ("norm", "norm_bf16", with_weight("bfloat16"), (2.2e-03, 1.6e-03)),
    ("affine", "affine_bf16", pair("float16"), (1.2e-03, 2.1e-04)),
    ("affine", "affine_bf16", pair("bfloat16"), (2.5e-03, 1.8e-03)),
    ("kahan", "kahan_dropped", rows(values=POSITIVE, shape=(512, 64)), (9.2e-07, 5.6e-08)),
]


@pytest.mark.parametrize(("original", "candidate", "arguments", "measured"), LESS_EXACT)
def test_what_loses_precision_is_refused(compare, original, candidate, arguments, measured):
    outcome = compare(original, candidate, arguments)
    assert outcome.status == "different", outcome
    assert "is allowed" in outcome.detail
    difference = outcome.difference
    assert abs(difference.got - difference.expected) > difference.allowed > 0
    assert (outcome.worst_error, outcome.original_error) == pytest.approx(measured, rel=0.5)
