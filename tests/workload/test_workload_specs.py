"""Launch specs: what they mean, and where an error points."""

from __future__ import annotations

import pytest

from tritonforge.analysis import analyze
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Distribution, Items, Scalar, Symbol, Tensor
from tritonforge.workload.specs import parse_spec

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""


def call(text: str, **options):
    return parse_spec(text, file="k.py", function="f", line=3, column=10, **options)


def test_a_tensor_has_shape_contiguous_strides_and_dtype():
    (_, x), (_, scale) = call("x=fp16[8, 4, 2] scale=0.5").keywords
    assert x == Tensor((8, 4, 2), (8, 2, 1), "float16")
    assert scale == Scalar(0.5)


def test_extents_may_use_the_integers_of_the_spec():
    values = dict(call("n=1000 x=fp32[n * 2, n // 3]").keywords)
    assert values["x"].shape == (2000, 333)


def test_values_of_every_kind_are_read():
    values = dict(call("a=True b=None c='re lu' d=torch.bfloat16 e=(1, 2) f=-3 g=[fp16[2], fp32[3]]").keywords)
    assert values["a"] == Scalar(True)
    assert values["b"] == Scalar(None)
    assert values["c"] == Scalar("re lu")
    assert values["d"] == Symbol("dtype", "bfloat16")
    assert values["e"] == Items("tuple", (Scalar(1), Scalar(2)))
    assert values["f"] == Scalar(-3)
    assert [t.dtype for t in values["g"].items] == ["float16", "float32"]


def test_recipes_say_which_values_a_tensor_holds():
    values = dict(call("i=int32[8]~randint(0, 512) x=fp32[8] ~ normal(0, 0.02) z=fp16[8]~zeros").keywords)
    assert values["i"].values == Distribution("uniform", low=0, high=511)
    assert values["x"].values == Distribution("normal", mean=0.0, std=0.02)
    assert values["z"].values == Distribution("zeros")


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("x=fp17[3]", 12, "unknown dtype 'fp17'"),
        ("n=4 x=fp32[", 20, "never closed"),
        ("x=fp16[2] yy", 20, "expected name=value"),
        ("x=fp16[q]", 17, "'q'"),
        ("x=1 x=2", 14, "given twice"),
        ("x=fp16[4, -1]", 20, "the extent -1 is negative"),
        ("x='abc", 12, "never closed"),
        ("x=fp16[3]~randint(0, 2)", 20, "cannot use the recipe"),
        ("x=fp16[9999999, 9999999]", 12, "larger than any GPU"),
        ("n=3 x=fp16[n // 0]", 26, "divides by zero"),
    ],
)
def test_an_error_points_at_the_character(text, column, says):
    with pytest.raises(UsageError) as caught:
        call(text)
    assert str(caught.value).startswith(f"k.py:3:{column}: ")
    assert says in str(caught.value)


def test_a_spec_above_a_kernel_takes_grid_and_options():
    (kernel,) = analyze(KERNEL, "k.py").kernels
    spec = call("x_ptr=fp32[n] out_ptr=fp32[n] n=4096 BLOCK=64 grid=cdiv(n, BLOCK) num_warps=2", kernel=kernel)
    assert spec.kernel_launch.grid == ("cdiv(n, BLOCK)",)
    assert spec.kernel_launch.options == (("num_warps", Scalar(2)),)
    assert [name for name, _ in spec.keywords] == ["x_ptr", "out_ptr", "n", "BLOCK"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x_ptr=fp32[8] out_ptr=fp32[8] n=8 BLOCK=8", "needs a grid"),
        ("x_ptr=fp32[8] out_ptr=fp32[8] n=8 grid=1", "does not give BLOCK"),
        ("x=fp32[8] grid=1", "has no parameter 'x'"),
        ("x_ptr=fp32[8] out_ptr=fp32[8] n=8 BLOCK=8 grid=(1, 1, 1, 1)", "one to three axes"),
    ],
)
def test_a_spec_above_a_kernel_must_fit_its_signature(text, says):
    (kernel,) = analyze(KERNEL, "k.py").kernels
    with pytest.raises(UsageError, match=says):
        call(text, kernel=kernel)


def test_the_same_spec_has_the_same_id_and_another_has_another():
    assert call("x=fp16[8]").id == call("x=fp16[8]").id
    assert call("x=fp16[8]").id != call("x=fp16[9]").id
