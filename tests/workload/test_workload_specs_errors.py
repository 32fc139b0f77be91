"""A wrong launch spec: the error points at the character that is wrong, and says how to mend it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.analysis import analyze
from tritonforge.domain.errors import UsageError
from tritonforge.domain.launch import Call
from tritonforge.workload.specified import spec_problems
from tritonforge.workload.specs import MAX_CALLS, SpecError, parse_specs

SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

def host(x, y=None, stride=1, flag=False):
    scale[(1,)](x, y, stride, BLOCK=64)

class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps=1e-5, flag=False):
        scale[(1,)](x, x, 1, BLOCK=64)
"""
ANALYSIS = analyze(SOURCE, "k.py")
(KERNEL,) = ANALYSIS.kernels
HOSTS = {f.name: f for f in ANALYSIS.functions}
WHOLE = "x_ptr=fp32[8] out_ptr=fp32[8] n=8 BLOCK=8 grid="

# Text with | before the character that the error must point at; what it must say; what the mend must say.
WRONG_ON_HOST = [
    ("x=|fp17[3]", "unknown dtype 'fp17'", "Did you mean 'fp1"),
    ("x=|float61[3]", "unknown dtype", "Did you mean 'float64'?"),
    ("x=|zzz[3]", "unknown dtype 'zzz'", "Known: fp64"),
    ("x=fp16|[3", "never closed", ""),
    ("x=fp16[|q]", "'q'", "Add q="),
    ("x=fp16[4, |-1]", "negative", ""),
    ("x=fp16[|2.5]", "whole number", ""),
    ("x=fp16[|M/2] M=4", "whole number", "//"),
    ("x=fp16[|'a']", "no number", ""),
    ("x=fp16[|fp32]", "is a dtype", ""),
    ("M=3 x=fp16[M // |0]", "divides by zero", ""),
    ("M=3 x=fp16[M % |0]", "divides by zero", ""),
    ("M=3 x=fp16[|M ** 64]", "too large", ""),
    ("M=3 x=fp16[M ** |65]", "out of range", ""),
    ("M=3 x=fp16[M << |65]", "out of range", ""),
    ("x=|fp16[9999999, 9999999]", "larger than any GPU", ""),
    ("x=|fp16[2, 2]:[1 << 45, 1]", "larger than any GPU", ""),
    ("x=fp16[M] M=N N=|M", "'M' is defined by itself", "Give it a number"),
    ("x=fp16[8] |M=M", "no parameter 'M'", ""),
    ("x=fp16[M] |N=4 M=3", "no parameter 'N'", "Its parameters"),
    ("x=fp16[8] |strid=4", "no parameter 'strid'", "Did you mean 'stride'?"),
    ("x=fp16[M] M=3 |strid in [1, 2]", "nothing reads strid", "Did you mean 'stride'?"),
    ("x=fp16[8] |x=1", "given twice", ""),
    ("x=fp16[8] |yy", "expected name=value, found 'yy'", ""),
    ("x=fp16[8]|, y=None", "expected name=value, found ','", ""),
    ("x=fp16[8] |4", "expected name=value", ""),
    ("x=fp16[8]|) y=1", "closes nothing", ""),
    ("x=| y=1", "has no value", ""),
    ("x=|", "has no value", ""),
    ("|", "is empty", "launch x=fp16"),
    ("y=None|", "does not give x", "Add name=value"),
    ("x=|'abc", "never closed", ""),
    ("x=fp16[8] y=|$", "cannot read the character", ""),
    ("x=fp16[3|p]", "expected a blank", ""),
    ("x=|" + "9" * 41, "too long", ""),
    ("x=|1e999", "too large", ""),
    ("x=fp16[8 |9]", "expected ',' or ']'", "still open"),
    ("x=fp16[8,|,9]", "expected a value", ""),
    ("x=fp16[(|]", "expected a value", "before it is open"),
    ("x=i32[3]~|randnt(0, 2)", "no recipe 'randnt'", "Did you mean 'randint'?"),
    ("x=i32[3]~|qq", "no recipe", "Known recipes"),
    ("x=fp16[3]~|randint(0, 2)", "cannot use the recipe", "uniform"),
    ("x=i32[3]~|normal", "cannot use the recipe", "randint"),
    ("x=fp16[3]~|normal(1)", "takes 0 or 2 numbers", "normal(mean, std)"),
    ("x=fp16[3]~normal(0, |-1)", "negative", ""),
    ("x=i32[3]~randint(5, |5)", "high above its low", ""),
    ("x=i8[3]~randint(0, |500)", "int8 holds -128 to 127", ""),
    ("x=u8[3]~full(|-1)", "uint8 holds", ""),
    ("x=i8[300]~|arange", "int8 holds", ""),
    ("x=i1[3]~mask(|2)", "between 0 and 1", ""),
    ("x=i32[3]~|values(1, 2)", "2 numbers for 3 elements", ""),
    ("x=i8[2]~values(1, |300)", "int8 holds", ""),
    ("x=i8[2]~values(1, |2.5)", "whole numbers", ""),
    ("x=fp16[1]~values(|1e6)", "float16 holds -65504 to 65504, not 1e+06", ""),
    ("x=bf16[2]~values(1, |-3.4e38)", "bfloat16 holds", ""),
    ("x=fp32[8]~full(|1e300)", "float32 holds -3.40282e+38 to 3.40282e+38, not 1e+300", ""),
    ("x=fp16[8]~full(|-65505)", "float16 holds", ""),
    ("x=bf16[8]~sorted(full(|3.4e38))", "bfloat16 holds", ""),
    ("x=fp8e4[8]~full(|449)", "float8_e4m3fn holds -448 to 448", ""),
    ("x=fp8e5[8]~uniform(|-57345, 1)", "float8_e5m2 holds", ""),
    ("x=fp32[8]~normal(0, |1e39)", "float32 holds", ""),
    ("x=fp32[8]~uniform(-3e38, |3e38)", "spans at most 3.40282e+38", ""),
    ("x=fp8e4[1000]~|arange", "arange of float8_e4m3fn counts from -448 to 448, not 0 to 999", ""),
    ("x=fp64[8]~arange(|1e300)", "arange of float64 counts", ""),
    ("x=fp8e5[1]~|values(1)", "cannot be written out", ""),
    ("x=fp16[3]~sparse(|3)", "between 0 and 1", ""),
    ("x=i32[3]~|sparse(0.5)", "cannot use", "mask"),
    ("x=i32[4]~sorted(|values(1, 2, 3, 4))", "order", ""),
    ("x=i32[4]~sorted(randint(0, 4), |up)", "sorted takes", ""),
    ("x=fp16[3]~|", "expected a recipe", ""),
    ("x=fp16[3, 4]:|[1]", "1 strides for 2 axes", ""),
    ("x=fp16[3, 4]:[4, |-1]", "negative", ""),
    ("x=fp16[3, 4]:|4", "expected strides", ""),
    ("x=fp16[3]@|-1", "negative", ""),
    ("x=fp16[3].|Q", "no 'Q'", "Known"),
    ("x=fp16[3].|T", "needs 2 axes", ""),
    ("x=fp16[3, 4].transpose(0, |2)", "no axis 2", ""),
    ("x=fp16[3, 4].|transpose(0)", "two axes", ""),
    ("x=i32[3].|requires_grad", "gradients", ""),
    ("x=fp16[3].T|:[1]", "cannot stand here", ""),
    ("x=fp16[3] y=x|~zeros", "expected name=value, found '~'", ""),
    ("x=fp16[3, 3] y=x.T~|zeros", "the values are those of 'x'", "Give the recipe there"),
    ("x=fp16[3] y=|z.T", "'z'", ""),
    ("x=fp16[3, 3] y=|stride.T stride=3", "no tensor", ""),
    ("x=|cdvi(3, 4)", "no function", "Did you mean 'cdiv'?"),
    ("x=|cdiv(3)", "takes 2 arguments", ""),
    ("x=cdiv(3, |0)", "divides by zero", ""),
    ("x=|desc(fp16[3])", "takes a tensor and the shape", ""),
    ("x=desc(|4, [1])", "describes a tensor", ""),
    ("x=desc(fp16[4, 4], |[1])", "2 axes", ""),
    ("x=fp16[M] |M in [" + ", ".join(map(str, range(17))) + "]", "17 calls", "Choose fewer"),
    ("x=fp16[M, N] M in [1, 2, 3, 4, 5] |N in 1..4", "20 calls", "pair them"),
    ("x=fp16[M] |M in 1..100", "more than 16", "Step further"),
    ("x=fp16[M] M in 4..|1", "empty", ""),
    ("x=fp16[M] M in 1..4 step |0", "leads nowhere", ""),
    ("x=fp16[M] M in 1..4 step *|1", "leads nowhere", ""),
    ("x=fp16[M] M in |0..4 step *2", "starts at 1", ""),
    ("x=fp16[M] M in |[]", "no values", ""),
    ("x=fp16[M] M in |4", "expected a list or a range", "M in [1, 128, 4096]"),
    ("x=fp16[M] M in|", "no values", ""),
    ("x=fp16[M, N] M, N in [(1, 2), |3]", "2 values, for M, N", ""),
    ("x=fp16[M, N] M, N in |1..4", "one size", ""),
    ("x=fp16[M, N] M, |4 in [1]", "expected a name", ""),
    ("x=fp16[M] M, N |= 4", "expected 'in'", ""),
    ("x=|T[4] T in [fp16, 3]", "'T' is no dtype", "T in [fp16, bf16]"),
    ("x=fp16[8] y=" + "(" * 31 + "(|1" + ")" * 32, "nested too deeply", ""),
]  # fmt: skip

WRONG_ON_KERNEL = [
    ("x_ptr=fp32[8] out_ptr=fp32[8] n=8 BLOCK=8|", "needs a grid", "grid=cdiv(n, BLOCK)"),
    ("x_ptr=fp32[8] out_ptr=fp32[8] n=8 grid=1|", "does not give BLOCK", ""),
    ("|x_prt=fp32[8] grid=1", "no parameter 'x_prt'", "Did you mean 'x_ptr'?"),
    ("|num_warp=4 grid=1", "no parameter 'num_warp'", "Did you mean 'num_warps'?"),
    (WHOLE + "|(1, 1, 1, 1)", "one to three axes", ""),
    (WHOLE + "|0", "the grid 0 starts no program", ""),
    (WHOLE + "(1, |n - BLOCK)", "the grid 0 starts no program", ""),
    (WHOLE + "1 num_warps=|'a'", "num_warps must be a power of two from 1 to 32, not 'a'", "num_warps=4"),
    (WHOLE + "1 num_warps=|3", "power of two", ""),
    (WHOLE + "1 num_warps=|64", "power of two", ""),
    (WHOLE + "1 num_warps in [4, |0]", "power of two", ""),
    (WHOLE + "1 num_warps=|True", "power of two", ""),
    (WHOLE + "1 num_warps=|None", "power of two", ""),
    (WHOLE + "1 num_stages=|-1", "num_stages must be", ""),
    (WHOLE + "1 num_stages=|2.0", "num_stages must be", ""),
    (WHOLE + "1 num_stages=|fp32[4]", "num_stages must be", ""),
    (WHOLE + "1 num_ctas=|3", "num_ctas must be", ""),
    (WHOLE + "1 maxnreg=|256", "maxnreg must be 1 to 255, not 256", ""),
    (WHOLE + "1 maxnreg=|0", "maxnreg must be 1 to 255, not 0", ""),
    (WHOLE + "|-1", "the grid -1 is negative", ""),
    (WHOLE + "(1, |n - BLOCK - 1)", "the grid -1 is negative", ""),
    (WHOLE + "|1 << 40", "the grid 1099511627776 is more than", ""),
    (WHOLE + "cdiv(n, |BLOK)", "cannot read 'BLOK'", "Did you mean 'BLOCK'?"),
    (WHOLE + "|cdvi(n, 4)", "cannot call 'cdvi'", "Did you mean 'cdiv'?"),
    (WHOLE + "|cdiv(n)", "takes 2 arguments", ""),
    (WHOLE + "n |/ 3", "whole number", "//"),
    (WHOLE + "|'a'", "axis of a grid", ""),
    (WHOLE + "|x_ptr", "no whole number", ""),
]


def refused(text, **options):
    offset = text.index("|")
    with pytest.raises(SpecError) as caught:
        parse_specs(text.replace("|", "", 1), file="k.py", line=3, column=10, **options)
    return offset, caught.value


@pytest.mark.parametrize(("text", "says", "mend"), WRONG_ON_HOST)
def test_an_error_in_a_host_functions_spec_points_at_its_character(text, says, mend):
    offset, error = refused(text, function="host", host=HOSTS["host"])
    assert str(error).startswith(f"k.py:3:{10 + offset}: "), error
    assert says in error.reason
    assert mend in error.mend


@pytest.mark.parametrize(("text", "says", "mend"), WRONG_ON_KERNEL)
def test_an_error_in_a_kernels_spec_points_at_its_character(text, says, mend):
    offset, error = refused(text, function="scale", kernel=KERNEL)
    assert str(error).startswith(f"k.py:3:{10 + offset}: "), error
    assert says in error.reason
    assert mend in error.mend


def test_arguments_of_an_autograd_function_are_given_in_order():
    offset, error = refused("x=fp16[8] flag=True|", function="Op.forward", host=HOSTS["Op.forward"])
    assert "Op.apply takes its arguments in order, and eps is left out" in error.reason
    assert error.position.column == 10 + offset


def test_an_error_in_a_later_line_of_a_comment_points_at_that_line():
    source = "# tritonforge: launch x=fp16[M]\n#   M=4\n#   é=fp61[3]\n" + SOURCE[SOURCE.index("def host") :]
    (problem,) = spec_problems(analyze("import triton\n" + source, "k.py"))
    assert (problem.position.line, problem.position.column) == (4, 5)
    source = source.replace("é=fp61", "y=fp61")
    (problem,) = spec_problems(analyze("import triton\n" + source, "k.py"))
    assert (problem.position.line, problem.position.column, problem.reason) == (4, 7, "unknown dtype 'fp61'.")


def test_a_spec_above_nothing_is_a_problem_and_the_others_are_still_read():
    source = "import triton\n# tritonforge: launch x=1\n\nx = 3\n# tritonforge: launch x=fp61[3]\ndef f(x): pass\n"
    problems = spec_problems(analyze(source, "k.py"))
    assert [(p.position.line, p.position.column) for p in problems] == [(2, 23), (5, 25)]
    assert "stands above no kernel and no function" in problems[0].reason


def test_a_spec_above_a_method_says_where_to_put_it():
    source = "import triton\nclass A:\n    # tritonforge: launch x=fp16[3]\n    def f(self, x): pass\n"
    (problem,) = spec_problems(analyze(source, "k.py"))
    assert "needs an object" in problem.reason
    assert problem.mend == "Write the spec above the kernel, or above a function."


WORDS = st.sampled_from(
    [
        *("x", "y", "n", "M", "N", "fp16", "i32", "bool", "torch.float16", "None", "True", "'a'", "T", "grid", "BLOCK"),
        *("=", "in", "[", "]", "(", ")", ",", ":", ".", "~", "@", "..", "step", "*", "**", "//", "%", "-", "+", "<<"),
        *("0", "1", "7", "4096", "2.5", "9999999999999", "randint", "values", "sorted", "offsets", "normal", "mask"),
        *(
            "transpose",
            "cpu",
            "desc",
            "cdiv",
            "min",
            "num_warps",
            "x_ptr",
            "out_ptr",
            "#",
            "\n",
            "é",
            "'",
            '"',
            "{",
            "$",
        ),
        *("[M,N]", "x=", "M=", "in[1,2]", "1..8", "\\"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join), st.lists(WORDS, max_size=25).map("".join)
)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from(["host", "kernel", "unknown"]))
def test_no_text_gives_anything_but_calls_or_an_error_inside_it(text, kind):
    given_ = {"host": {"host": HOSTS["host"]}, "kernel": {"kernel": KERNEL}, "unknown": {}}[kind]
    error = None
    try:
        calls = parse_specs(text, file="k.py", function="f", line=7, column=5, **given_)
        assert 1 <= len(calls) <= MAX_CALLS
        assert all(isinstance(call, Call) for call in calls)
    except SpecError as caught:
        error = caught
    if error is not None:
        lines = text.split("\n")
        row = error.position.line - 7
        assert 0 <= row < len(lines)
        start = 5 if row == 0 else 1
        assert start <= error.position.column <= start + len(lines[row])


@pytest.mark.parametrize("piece", ["(", "[", "-", "x=(", "1+", "cdiv(", "x=fp16[", "2**", "~sorted(", "M in [", "T."])
def test_very_deep_and_very_long_specs_end_in_an_error_too(piece):
    for count in (100, 3000, 100_000):
        with pytest.raises(UsageError):
            parse_specs("x=" + piece * count, file="k.py", function="f")
