"""On a GPU the original is the oracle: what is as exact passes at real sizes, what is clearly less exact does not."""

import pytest

from tritonforge.domain.launch import Call, Distribution, Tensor
from tritonforge.domain.messages import CompareOnDevice, Precision

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

NORMAL = Distribution()
POSITIVE = Distribution("uniform", low=0.0, high=1.0)
OFFSET = Distribution("normal", mean=100.0, std=1.0)


def rows(dtype="float32", values=NORMAL, shape=(512, 4096)):
    return (Tensor(shape, (shape[1], 1), dtype, values=values),)


def with_weight(dtype):
    return (*rows(dtype), Tensor((4096,), (1,), dtype))


def pair(dtype):
    return (Tensor((1 << 20,), (1,), dtype),) * 2


def factors(dtype):
    return (*rows(dtype, shape=(512, 1024)), *rows(dtype, shape=(1024, 512)))


@pytest.fixture
def compare(compile_lane, program):
    def run(original, candidate, arguments, **options):
        first, second = (program("judged.py", ("run = None", f"run = {n}")) for n in (original, candidate))
        call = Call("c", "judged.py", "run", arguments)
        return compile_lane.do(CompareOnDevice(first, second, (call,), **options)).outcomes[0]

    return run


@pytest.mark.parametrize(
    ("original", "candidate", "arguments"),
    [
        ("sum_narrow", "sum_wide", rows()),
        ("sum_wide", "sum_narrow", rows("float16", POSITIVE)),
        ("softmax", "softmax_exp2", rows()),
        ("softmax", "softmax_online", rows("float16", OFFSET)),
        ("variance", "variance_welford", rows(values=OFFSET)),
        ("norm", "norm_rsqrt", with_weight("float32")),
        ("norm", "norm_rsqrt", with_weight("bfloat16")),
        ("affine", "affine_fused", pair("float32")),
        ("product", "product_tiled", factors("float16")),
    ],
)
def test_what_is_as_exact_as_the_original_passes(compare, original, candidate, arguments):
    outcome = compare(original, candidate, arguments)
    assert outcome.status == "equal", outcome.detail
    assert outcome.oracle == "original"


@pytest.mark.parametrize(
    ("original", "candidate", "arguments"),
    [
        ("variance", "variance_of_squares", rows(values=OFFSET)),
        ("sum_narrow", "sum_in_fp16", rows("float16", POSITIVE)),
        ("softmax", "softmax_bf16", rows()),
        ("softmax", "softmax_bf16", rows("float16")),
        ("norm", "norm_bf16", with_weight("float32")),
        ("affine", "affine_bf16", pair("float16")),
        ("product", "product_fp16", factors("float16")),
    ],
)
def test_what_is_clearly_less_exact_is_refused(compare, original, candidate, arguments):
    assert compare(original, candidate, arguments).status == "different"


def test_what_the_original_was_seen_to_lose_is_allowed(compare):
    arguments = rows("float16", POSITIVE)
    refused = compare("sum_narrow", "sum_in_fp16", arguments)
    assert refused.status == "different"
    allowed = compare("sum_narrow", "sum_in_fp16", arguments, precision=Precision(2.0**-10, 2e-3))
    assert allowed.status == "equal", allowed.detail
