"""Precision read off the compiler's first IR: lower than the original's is found, another way of computing is not."""

from __future__ import annotations

import pytest

from tritonforge.domain.launch import CallSite, RecordedLaunch
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.verify.precision import Attributes, attributes, lower_precision

LAUNCH = RecordedLaunch("k.py", "k", 1, (), (), (), (1, 1, 1), CallSite("k.py", 1, "f"))


def of(*bodies: str, element: str = "f32") -> Attributes:
    """Return the attributes of one launch for each body; every kernel takes pointers %a, %b and %o to `element`."""
    modules = []
    for body in bodies:
        arguments = ", ".join(f"%{name}: !tt.ptr<{element}>" for name in "abo")
        modules.append(
            f"module {{\n  tt.func public @k({arguments}) attributes {{noinline = false}} {{\n{body}\n}}\n}}"
        )
    compiled = [CompiledLaunch(LAUNCH, "sm_90", "3.7.1", {"ttir": module}) for module in modules]
    return attributes(compiled, "/w/k.py")


def load(name: str, element: str = "f32", shape: str = "32x32") -> str:
    return f"""
    %p{name} = tt.splat %{name} : !tt.ptr<{element}> -> tensor<{shape}x!tt.ptr<{element}>> loc(#loc)
    %{name}0 = tt.load %p{name} : tensor<{shape}x!tt.ptr<{element}>> loc(#loc)"""


def dot(a: str = "%a0", b: str = "%b0", *, element: str = "f32", attributes: str = "", result: str = "f32") -> str:
    return f"""
    %z = arith.constant dense<0.0> : tensor<32x32x{result}> loc(#loc)
    %d = tt.dot {a}, {b}, %z{attributes} : tensor<32x32x{element}> * tensor<32x32x{element}> -> tensor<32x32x{result}> loc("/w/k.py":7:1)"""


def cast(value: str, source: str, to: str, name: str) -> str:
    wide = {"f32": 32, "bf16": 16, "f16": 16, "f8E5M2": 8}
    word = "arith.truncf" if wide[to] < wide[source] else "arith.extf"
    return f"\n    {name} = {word} {value} : tensor<32x32x{source}> to tensor<32x32x{to}> loc(#loc)"


def op(name: str, value: str, result: str = "%r", element: str = "f32") -> str:
    return f"\n    {result} = {name} {value}, {value} : tensor<32x32x{element}> loc(#loc)"


def reduce(value: str, element: str = "f32", combine: str = "arith.addf", name: str = "%s") -> str:
    return f"""
    {name} = "tt.reduce"({value}) <{{axis = 1 : i32}}> ({{
    ^bb0(%x: {element} loc(#loc), %y: {element} loc(#loc)):
      %c = {combine} %x, %y : {element} loc(#loc)
      tt.reduce.return %c : {element} loc(#loc)
    }}) : (tensor<32x32x{element}>) -> tensor<32x{element}> loc(#loc)"""


def store(value: str, element: str = "f32") -> str:
    return f"""
    %po = tt.splat %o : !tt.ptr<{element}> -> tensor<32x32x!tt.ptr<{element}>> loc(#loc)
    tt.store %po, {value} : tensor<32x32x!tt.ptr<{element}>> loc(#loc)"""


def loop(
    body: str, start: str = "%z", carried: str = "%acc", result: str = "%sum", kind: str = "tensor<32x32xf32>"
) -> str:
    return f"""
    %c0 = arith.constant 0 : i32 loc(#loc)
    {result} = scf.for %i = %c0 to %n step %c0 iter_args({carried} = {start}) -> ({kind})  : i32 {{{body}
    }} loc(#loc)"""


LOADS = load("a") + load("b")
IEEE = LOADS + dot()
TF32 = LOADS + dot(attributes=", inputPrecision = tf32")
HALVES = load("a", "f16") + load("b", "f16")
CALL = f"""
    %h = tt.call @helper(%a0) : (tensor<32x32xf32>) -> tensor<32x32xf32> loc(#loc)
    tt.return loc(#loc)
  }}
  tt.func private @helper(%v: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {{noinline = true}} {{
{cast("%v", "f32", "bf16", "%n") + cast("%n", "bf16", "f32", "%w") + op("arith.mulf", "%w", "%q")}
    tt.return %q : tensor<32x32xf32> loc(#loc)"""

WIDE = HALVES + cast("%a0", "f16", "f32", "%aw") + cast("%b0", "f16", "f32", "%bw")
NARROW = (
    load("a", "f8E5M2")
    + load("b", "f8E5M2")
    + "".join(
        f"\n    %{name}w = tt.fp_to_fp %{name}0 : tensor<32x32xf8E5M2> -> tensor<32x32xf32> loc(#loc)" for name in "ab"
    )
)
LARGEST = (
    WIDE
    + "\n    %cst = arith.constant dense<3.000000e-01> : tensor<32x32xf32> loc(#loc)"
    + "\n    %m = arith.maxnumf %aw, %cst : tensor<32x32xf32> loc(#loc)"
)
PASSED = WIDE + (
    "\n    %cst = tt.splat %o : f32 -> tensor<32x32xf32> loc(#loc)"
    "\n    %m = arith.maxnumf %aw, %cst : tensor<32x32xf32> loc(#loc)"
)
CHOSEN = LARGEST.replace("3.000000e-01", "0.000000e+00").replace(
    "%m = arith.maxnumf %aw, %cst :",
    "%low = arith.cmpf olt, %aw, %bw : tensor<32x32xf32> loc(#loc)\n    %m = arith.select %low, %aw, %cst : tensor<32x32xi1>,",
)
MIXED = load("a") + load("o", "bf16") + cast("%o0", "bf16", "f32", "%ow")
PARTS = (
    MIXED
    + cast("%a0", "f32", "bf16", "%high")
    + cast("%high", "bf16", "f32", "%high_wide")
    + "\n    %rest = arith.subf %a0, %high_wide : tensor<32x32xf32> loc(#loc)"
    + cast("%rest", "f32", "bf16", "%middle")
    + cast("%middle", "bf16", "f32", "%middle_wide")
    + "\n    %last = arith.subf %rest, %middle_wide : tensor<32x32xf32> loc(#loc)"
    + cast("%last", "f32", "bf16", "%low")
    + "".join(dot(part, "%o0", element="bf16") for part in ("%high", "%middle", "%low"))
)
"""A product of fp32 and bf16, the former in parts of 8 bits."""
SCALED = (
    PARTS.replace(
        "arith.truncf %rest",
        "arith.truncf %scaled",
    )
    .replace(
        "%middle = ",
        "%by = arith.constant dense<2.560000e+02> : tensor<32x32xf32> loc(#loc)"
        "\n    %scaled = arith.mulf %rest, %by : tensor<32x32xf32> loc(#loc)\n    %middle = ",
    )
    .replace("arith.subf %rest, %middle_wide", "arith.subf %scaled, %middle_wide")
)

LOWER = {
    "tf32 for fp32": (of(IEEE), of(TF32), "the candidate multiplies in tf32 (line 7) where the original uses ieee fp32"),
    "tf32 for three products of it": (
        of(LOADS + dot(attributes=", inputPrecision = tf32x3")), of(TF32), "tf32 (line 7) where the original uses tf32x3"
    ),
    "halves for fp32": (
        of(IEEE),
        of(LOADS + cast("%a0", "f32", "f16", "%ah") + cast("%b0", "f32", "f16", "%bh") + dot("%ah", "%bh", element="f16")),
        "multiplies in fp16",
    ),
    "halves for tf32, which have less range": (
        of(TF32),
        of(LOADS + cast("%a0", "f32", "f16", "%ah") + cast("%b0", "f32", "f16", "%bh") + dot("%ah", "%bh", element="f16")),
        "multiplies in fp16",
    ),
    "bf16 for fp16": (
        of(HALVES + dot(element="f16"), element="f16"),
        of(HALVES + cast("%a0", "f16", "f32", "%aw") + cast("%aw", "f32", "bf16", "%ah") + dot("%ah", "%ah", element="bf16"),
           element="f16"),
        "multiplies in bf16",
    ),
    "a product that accumulates in fp16": (
        of(HALVES + dot(element="f16"), element="f16"),
        of(HALVES + dot(element="f16", result="f16"), element="f16"),
        "accumulates in fp16",
    ),
    "fewer fp8 products before promotion is more precise, more is not": (
        of(load("a", "f8E5M2") + load("b", "f8E5M2") + dot(element="f8E5M2", attributes=" {maxNumImpreciseAcc = 32 : i32}")),
        of(load("a", "f8E5M2") + load("b", "f8E5M2") + dot(element="f8E5M2", attributes=" {maxNumImpreciseAcc = 128 : i32}")),
        "adds up 128 fp8 products",
    ),
    "a lower format of a scaled product": (
        of(HALVES + "\n    %d = tt.dot_scaled %a0, %b0, %z lhs = e4m3 rhs = e4m3 {fastMath = false} : tensor<32x32xi8> * tensor<32x32xi8> -> tensor<32x32xf32>"),
        of(HALVES + "\n    %d = tt.dot_scaled %a0, %b0, %z lhs = e4m3 rhs = e2m1 {fastMath = false} : tensor<32x32xi8> * tensor<32x16xi8> -> tensor<32x32xf32>"),
        "fp4e2m1",
    ),
    "a sum in fp16": (
        of(HALVES + cast("%a0", "f16", "f32", "%w") + reduce("%w"), element="f16"),
        of(HALVES + reduce("%a0", "f16"), element="f16"),
        "adds up in fp16",
    ),
    "arithmetic in bf16": (
        of(load("a", "bf16") + cast("%a0", "bf16", "f32", "%w") + op("arith.mulf", "%w"), element="bf16"),
        of(load("a", "bf16") + op("arith.mulf", "%a0", element="bf16"), element="bf16"),
        "computes in bf16",
    ),
    "a rounding in between": (
        of(LOADS + op("arith.mulf", "%a0") + reduce("%r")),
        of(LOADS + op("arith.mulf", "%a0") + cast("%r", "f32", "bf16", "%n") + cast("%n", "bf16", "f32", "%w") + reduce("%w")),
        "rounds to bf16 in between",
    ),
    "a rounding that a loop carries": (
        of(LOADS + "\n    %z = arith.constant dense<0.0> : tensor<32x32xf32>"
           + loop("\n      %t = arith.addf %acc, %a0 : tensor<32x32xf32>\n      scf.yield %t : tensor<32x32xf32>")),
        of(LOADS + "\n    %z = arith.constant dense<0.0> : tensor<32x32xf16>"
           + loop("\n      %w = arith.extf %acc : tensor<32x32xf16> to tensor<32x32xf32>"
                  "\n      %t = arith.addf %w, %a0 : tensor<32x32xf32>"
                  "\n      %n = arith.truncf %t : tensor<32x32xf32> to tensor<32x32xf16>"
                  "\n      scf.yield %n : tensor<32x32xf16>", kind="tensor<32x32xf16>")),
        "rounds to fp16 in between",
    ),
    "a factor folded into halves before a product": (
        of(HALVES + dot(element="f16") + op("arith.mulf", "%d"), element="f16"),
        of(HALVES + cast("%a0", "f16", "f32", "%w") + op("arith.mulf", "%w") + cast("%r", "f32", "f16", "%q")
           + dot("%q", element="f16"), element="f16"),
        "rounds the left operand of a product to fp16",
    ),
    "a rounding within a helper that is not inlined": (of(LOADS + op("arith.mulf", "%a0")), of(LOADS + CALL), "rounds to bf16"),
    "a narrower buffer": (
        of(LOADS + store("%a0")),
        of(LOADS + cast("%a0", "f32", "f16", "%n") + store("%n", "f16")),
        "stores fp16",
    ),
    "an approximate function": (
        of(LOADS + "\n    %e = math.exp %a0 : tensor<32x32xf32>"),
        of(LOADS + '\n    %e = tt.extern_elementwise %a0 {libname = "", symbol = "__nv_fast_expf"} : (tensor<32x32xf32>) -> tensor<32x32xf32>'),
        "the approximate __nv_fast_expf",
    ),
    "approximate assembly": (
        of(LOADS + "\n    %e = math.tanh %a0 : tensor<32x32xf32>"),
        of(LOADS + '\n    %e = tt.elementwise_inline_asm "tanh.approx.f32 $0, $1;" {constraints = "=f,f"} %a0 : tensor<32x32xf32> -> tensor<32x32xf32>'),
        "the approximate tanh.approx.f32",
    ),
    "a quotient that is not rounded correctly": (
        of(LOADS + op("tt.precise_divf", "%a0")), of(LOADS + op("arith.divf", "%a0")), "divides approximately"
    ),
    "one launch of two": (of(IEEE, LOADS + op("arith.mulf", "%a0")), of(LOADS + op("arith.mulf", "%a0"), TF32), "tf32"),
    "halves that were rounded for a product of what was loaded": (
        of(WIDE + dot("%aw", "%bw"), element="f16"),
        of(WIDE + op("arith.mulf", "%aw") + cast("%r", "f32", "f16", "%rh") + dot("%rh", element="f16"), element="f16"),
        "multiplies in fp16 (line 7) where the original uses ieee fp32",
    ),
    "halves or a number of the kernel's own, which tf32 rounds": (
        of(LARGEST + dot("%m", "%bw"), element="f16"),
        of(LARGEST + dot("%m", "%bw", attributes=", inputPrecision = tf32"), element="f16"),
        "multiplies in tf32",
    ),
    "halves or an argument, which tf32 rounds": (
        of(PASSED + dot("%m", "%bw"), element="f16"),
        of(PASSED + dot("%m", "%bw", attributes=", inputPrecision = tf32"), element="f16"),
        "multiplies in tf32",
    ),
    "fp8 as it was loaded, whose products are not summed in fp32": (
        of(NARROW + "\n    %r = arith.mulf %aw, %bw : tensor<32x32xf32> loc(#loc)" + reduce("%r"), element="f8E5M2"),
        of(NARROW + dot(element="f8E5M2", attributes=" {maxNumImpreciseAcc = 128 : i32}"), element="f8E5M2"),
        "multiplies in fp8e5m2",
    ),
    "a sum that a dot of halves carries in fp16": (
        of(WIDE + dot("%aw", "%bw"), element="f16"), of(HALVES + dot(element="f16", result="f16"), element="f16"),
        "accumulates in fp16",
    ),
    "parts that are scaled by something else": (
        of(MIXED + dot("%a0", "%ow"), element="bf16"),
        of(SCALED.replace("2.560000e+02", "3.000000e+02"), element="bf16"),
        "multiplies in bf16",
    ),
    "two parts of three": (
        of(MIXED + dot("%a0", "%ow"), element="bf16"),
        of(PARTS.replace("tt.dot %low", "tt.dot %middle"), element="bf16"),
        "multiplies in bf16",
    ),
    "a part that another factor is multiplied by": (
        of(MIXED + dot("%a0", "%ow"), element="bf16"),
        of(load("b", "bf16") + PARTS.replace("%low, %o0", "%low, %b0"), element="bf16"),
        "multiplies in bf16",
    ),
    "parts in fp16, which lacks the range": (
        of(MIXED.replace("bf16", "f16") + dot("%a0", "%ow"), element="f16"),
        of(PARTS.replace("bf16", "f16"), element="f16"),
        "multiplies in fp16",
    ),
}  # fmt: skip

ONLINE = (
    LOADS
    + reduce("%a0", combine="arith.maxnumf", name="%m")
    + "\n    %e = math.exp2 %a0 : tensor<32x32xf32>"
    + reduce("%e")
)

NOT_LOWER = {
    "higher precision": (of(TF32), of(IEEE)),
    "three products for one": (of(TF32), of(LOADS + dot(attributes=", inputPrecision = tf32x3"))),
    "halves multiplied as tf32, which holds them": (
        of(HALVES + dot(element="f16"), element="f16"),
        of(HALVES + cast("%a0", "f16", "f32", "%aw") + cast("%b0", "f16", "f32", "%bw")
           + dot("%aw", "%bw", attributes=", inputPrecision = tf32"), element="f16"),
    ),
    "an attribute that means nothing for halves": (
        of(HALVES + dot(element="f16"), element="f16"),
        of(HALVES + dot(element="f16", attributes=", inputPrecision = tf32"), element="f16"),
    ),
    "other tiles": (of(IEEE), of(IEEE.replace("32x32", "64x16"))),
    "two products for one": (of(IEEE), of(IEEE + dot().replace("%d", "%d2"))),
    "exp2 for exp": (
        of(LOADS + "\n    %e = math.exp %a0 : tensor<32x32xf32>"), of(LOADS + "\n    %e = math.exp2 %a0 : tensor<32x32xf32>")
    ),
    "an online softmax": (of(LOADS + reduce("%a0", combine="arith.maxnumf") + "\n    %e = math.exp %a0 : tensor<32x32xf32>"), of(ONLINE)),
    "a maximum of halves without widening them": (
        of(HALVES + cast("%a0", "f16", "f32", "%w") + reduce("%w", combine="arith.maxnumf"), element="f16"),
        of(HALVES + reduce("%a0", "f16", combine="arith.maxnumf"), element="f16"),
    ),
    "halves widened, moved and stored as halves": (
        of(HALVES + store("%a0", "f16"), element="f16"),
        of(HALVES + cast("%a0", "f16", "f32", "%w") + cast("%w", "f32", "f16", "%n") + op("arith.maxnumf", "%n", element="f16")
           + store("%r", "f16"), element="f16"),
    ),
    "the rounding of a probability that the original has too": (
        of(HALVES + dot(element="f16") + cast("%d", "f32", "f16", "%q") + dot("%q", element="f16").replace("%d", "%e"), element="f16"),
        of(HALVES + dot(element="f16") + op("math.exp2", "%d", "%x") + cast("%x", "f32", "f16", "%q")
           + dot("%q", element="f16").replace("%d", "%e"), element="f16"),
    ),
    "the result in the output's type": (
        of(LOADS + op("arith.mulf", "%a0") + cast("%r", "f32", "f16", "%n") + store("%n", "f16")),
        of(LOADS + op("arith.addf", "%a0") + op("arith.mulf", "%r", "%t") + cast("%t", "f32", "f16", "%n") + store("%n", "f16")),
    ),
    "an approximation that the original uses": (
        of(LOADS + '\n    %e = tt.elementwise_inline_asm "tanh.approx.f32 $0, $1;" {} %a0 : tensor<32x32xf32> -> tensor<32x32xf32>'),
        of(LOADS + '\n    %f = tt.elementwise_inline_asm "tanh.approx.f32 $0, $1;" {} %b0 : tensor<32x32xf32> -> tensor<32x32xf32>'),
    ),
    "a sum for a product with ones": (of(IEEE), of(LOADS + reduce("%a0"))),
    "nothing that floats": (of(LOADS), of(LOADS + "\n    %i = arith.addi %x, %x : tensor<32xi32>")),
    "tf32 of halves or zeros, by a condition": (
        of(CHOSEN + dot("%m", "%bw"), element="f16"),
        of(CHOSEN + dot("%m", "%bw", attributes=", inputPrecision = tf32"), element="f16"),
    ),
    "halves as they were loaded, whose products fp32 holds": (
        of(WIDE + dot("%aw", "%bw"), element="f16"), of(HALVES + dot(element="f16"), element="f16")
    ),
    "products of halves that were summed in fp32": (
        of(WIDE + "\n    %r = arith.mulf %aw, %bw : tensor<32x32xf32> loc(#loc)" + reduce("%r"), element="f16"),
        of(HALVES + dot(element="f16"), element="f16"),
    ),
    "tf32 of halves, which it holds": (
        of(WIDE + dot("%aw", "%bw"), element="f16"),
        of(WIDE + dot("%aw", "%bw", attributes=", inputPrecision = tf32"), element="f16"),
    ),
    "an fp32 factor in three parts": (of(MIXED + dot("%a0", "%ow"), element="bf16"), of(PARTS, element="bf16")),
    "parts that are scaled by powers of two": (of(MIXED + dot("%a0", "%ow"), element="bf16"), of(SCALED, element="bf16")),
}  # fmt: skip


@pytest.mark.parametrize("name", LOWER)
def test_lower_precision_is_found_and_named(name):
    original, candidate, said = LOWER[name]
    assert said in lower_precision(original, candidate)
    assert lower_precision(original, original) == ""
    assert lower_precision(candidate, candidate) == ""


@pytest.mark.parametrize("name", NOT_LOWER)
def test_another_way_of_computing_is_not_lower_precision(name):
    original, candidate = NOT_LOWER[name]
    assert lower_precision(original, candidate) == ""


def test_a_product_is_compared_with_the_product_of_the_same_operands():
    loads = LOADS + load("o")
    other = cast("%a0", "f32", "f16", "%ah") + cast("%o0", "f32", "f16", "%oh")
    mixed = loads + dot() + other + dot("%ah", "%oh", element="f16").replace("%d", "%e")
    lower = mixed.replace("%z : tensor<32x32xf32>", "%z, inputPrecision = tf32 : tensor<32x32xf32>")
    assert mixed != lower
    assert "tf32" in lower_precision(of(mixed), of(lower))


def test_text_that_is_no_module_has_no_attributes():
    assert (
        of().uses
        == attributes([CompiledLaunch(LAUNCH, "sm_90", "3.7.1", {"ttir": "what?\n}}}\n%a = ("})], "").uses
        == []
    )


def through(word: str, narrow: str, back: str, *, wide: str = "i32") -> Attributes:
    body = (
        load("a", wide)
        + f"""
    %n = {word} %a0 : tensor<32x32x{wide}> to tensor<32x32x{narrow}> loc(#loc)
    %w = {back} %n : tensor<32x32x{narrow}> to tensor<32x32x{wide}> loc(#loc)"""
    )
    return of(body + store("%w", wide), element=wide)


@pytest.mark.parametrize(
    ("word", "narrow", "back", "name"),
    [("arith.trunci", "i16", "arith.extsi", "int16"), ("arith.sitofp", "f32", "arith.fptosi", "fp32")],
)
def test_integers_do_not_go_through_a_type_that_cannot_hold_them(word, narrow, back, name):
    plain = of(load("a", "i32") + store("%a0", "i32"), element="i32")
    there_and_back = through(word, narrow, back)
    assert f"puts integers through {name}" in lower_precision(plain, there_and_back)
    assert lower_precision(there_and_back, there_and_back) == ""


@pytest.mark.parametrize(("narrow", "wide"), [("f64", "i32"), ("f32", "i16")])
def test_integers_may_go_through_a_type_that_holds_them(narrow, wide):
    plain = of(load("a", wide) + store("%a0", wide), element=wide)
    assert lower_precision(plain, through("arith.sitofp", narrow, "arith.fptosi", wide=wide)) == ""


def test_a_narrow_output_is_no_narrowing_on_the_way():
    plain = of(load("a", "i32") + store("%a0", "i32"), element="i32")
    body = load("a", "i32") + "\n    %n = arith.trunci %a0 : tensor<32x32xi32> to tensor<32x32xi8> loc(#loc)"
    assert lower_precision(plain, of(body + store("%n", "i8"), element="i32")) == ""
