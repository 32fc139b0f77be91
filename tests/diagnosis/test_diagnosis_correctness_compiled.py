"""What the correctness rules say of a compiled launch, of faults that were seen, and of versions."""

from __future__ import annotations

import dataclasses

import pytest
from diagnosis_cases import FILE, compilation_of, copy, kernel_of, launch_of, line_of, matmul, tensor

from tritonforge.compilation.extremes import read_extremes
from tritonforge.compilation.formats import read_formats
from tritonforge.diagnosis import Case, diagnose
from tritonforge.domain.compilation import LineWork
from tritonforge.domain.faults import Fault
from tritonforge.domain.finding import Finding
from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.semantics import DotFormat, Extreme, Semantics, SumFormat

TWO_31 = 1 << 31


def of(case: Case, code: str) -> list[Finding]:
    return [f for f in diagnose(case.kernel, [case]) if f.code == code]


def copied(*extremes: Extreme, x: Tensor, o: Tensor | None = None) -> Case:
    kernel = kernel_of(copy(1024))
    n = x.elements
    launch = launch_of(kernel, (-(-n // 1024),), x=x, o=o or x, n=n, BLOCK=1024)
    return Case(kernel, launch, compilation_of({}, launch, semantics=Semantics(extremes)))


def extreme(pointer: str, highest: int, **more: object) -> Extreme:
    line = line_of(copy(1024), "tl.store")
    given = {"masked": False, "lowest": 0, "program": (9, 0, 0), **more}
    return Extreme(line, "load", pointer, highest=highest, **given)  # type: ignore[arg-type]


def test_an_offset_that_wraps_round_in_the_launch_is_an_error():
    large = tensor(TWO_31 + 4096)
    line = line_of(copy(1024), "i = tl.program_id")
    (finding,) = of(
        copied(extreme("x", TWO_31 + 4095, masked=True, passed=TWO_31 + 4095, passed_line=line), x=large), "TF501"
    )
    assert finding.severity == "error"
    assert finding.range.start.line == line
    assert finding.evidence["largest_value"].value == TWO_31 + 4095


def test_an_offset_near_the_end_of_32_bits_is_information():
    large = tensor(TWO_31 // 2)
    (finding,) = of(copied(extreme("x", TWO_31 // 2 - 1, masked=True, widest=TWO_31 // 2 - 1), x=large), "TF501")
    assert finding.severity == "information"
    assert "2.0" in finding.message or "2 times" in finding.message


@pytest.mark.parametrize(
    ("why", "elements", "more"),
    [
        ("the tensor is small: those lanes are masked off", 4096, {"passed": TWO_31, "passed_line": 8, "masked": True}),
        ("far from the end", 1 << 26, {"widest": (1 << 26) - 1}),
        ("in 64 bits", TWO_31 + 4096, {}),
    ],
)
def test_offset_overflow_is_silent_for(why: str, elements: int, more: dict[str, int]):
    seen = extreme("x", elements - 1, **more)
    assert of(copied(seen, x=tensor(elements)), "TF501") == [], why


def test_an_unmasked_access_beyond_its_tensor_is_a_warning():
    (finding,) = of(copied(extreme("x", 1023), x=tensor(1000)), "TF503")
    assert finding.severity == "warning"
    assert finding.provenance == "compiled"
    assert finding.evidence["highest_element"].value == 1023
    assert "element 1023 of `x`, which has 1000" in finding.message.replace(",023", "023").replace(",000", "000")


def test_an_access_before_its_tensor_is_a_warning():
    (finding,) = of(copied(extreme("x", 10, lowest=-4), x=tensor(1000)), "TF503")
    assert "before its first" in finding.message


@pytest.mark.parametrize(
    ("why", "seen", "x", "o"),
    [
        ("a mask is there", extreme("x", 1023, masked=True), tensor(1000), None),
        ("the block divides the size", extreme("x", 1023), tensor(1024), None),
        (
            "the buffer goes on behind the view",
            extreme("x", 1023),
            dataclasses.replace(tensor(1000), buffer=3),
            dataclasses.replace(tensor(1000), buffer=3, offset=500),
        ),
        (
            "the view starts behind the buffer's start",
            extreme("x", 10, lowest=-4),
            dataclasses.replace(tensor(1000), buffer=3, offset=8),
            None,
        ),
    ],
)
def test_missing_mask_is_silent_when(why: str, seen: Extreme, x: Tensor, o: Tensor | None):
    assert of(copied(seen, x=x, o=o), "TF503") == [], why


def multiplied(
    dots: tuple[DotFormat, ...] = (), sums: tuple[SumFormat, ...] = (), *, change: str = "", **more: object
) -> Case:
    source = matmul(64, 64).replace("tl.dot(x, y, acc)", f"tl.dot(x, y, acc{change})")
    kernel = kernel_of(source)
    a = tensor(256, 256)
    launch = launch_of(kernel, (4, 4), a=a, b=a, c=a, BM=64, BN=64, BK=32)
    compiled = compilation_of({}, launch, semantics=Semantics(dots=dots, sums=sums))
    return Case(kernel, launch, dataclasses.replace(compiled, **more))  # type: ignore[arg-type]


DOT = DotFormat(line_of(matmul(64, 64), "tl.dot("), "f32", "f32", "tf32", 32, ("a", "b"), rows=64)


def test_float32_operands_in_tf32_by_default_are_a_warning():
    (finding,) = of(multiplied((DOT,)), "TF505")
    assert finding.severity == "warning"
    assert finding.range.start.line == DOT.line
    assert finding.evidence["operands"].value == "a, b"


@pytest.mark.parametrize(
    ("why", "case"),
    [
        ("the source says so", multiplied((DOT,), change=', input_precision="tf32"')),
        ("the source says so in the old way", multiplied((DOT,), change=", allow_tf32=True")),
        ("it is ieee", multiplied((dataclasses.replace(DOT, precision="ieee"),))),
        ("operands were widened from 16 bits", multiplied((dataclasses.replace(DOT, sources=()),))),
        ("the GPU has no tf32", multiplied((DOT,), arch="sm_75")),
        ("the GPU is no NVIDIA", multiplied((DOT,), arch="gfx942")),
    ],
)
def test_precision_surprise_is_silent_when(why: str, case: Case):
    assert of(case, "TF505") == [], why


def test_sums_and_accumulators_of_16_bits_are_warnings():
    half = dataclasses.replace(DOT, operand="f16", result="f16", precision="ieee", sources=())
    assert [f.severity for f in of(multiplied((half,)), "TF505")] == ["warning"]
    (long,) = of(multiplied(sums=(SumFormat(DOT.line, "bf16", 1024),)), "TF505")
    assert "sum over 1024 elements adds in bf16" in long.message
    assert len(of(multiplied(sums=(SumFormat(DOT.line, "f16", 0, loop=True),)), "TF505")) == 1
    assert of(multiplied(sums=(SumFormat(DOT.line, "f16", 16),)), "TF505") == []


def test_two_dots_into_one_accumulator_are_a_hazard_on_blackwell_with_some_versions():
    chained = (dataclasses.replace(DOT, operand="f16", precision="ieee", sources=(), chained=True),)
    (finding,) = of(multiplied(chained, arch="sm_100", triton="3.7.1"), "TF602")
    assert finding.severity == "warning"
    assert "triton-lang/triton#10821" in str(finding.evidence["reported"].value)
    assert of(multiplied(chained, arch="sm_90", triton="3.7.1"), "TF602") == []
    assert of(multiplied(chained, arch="sm_100", triton="3.5.1"), "TF602") == []
    small = (dataclasses.replace(chained[0], rows=16),)
    assert of(multiplied(small, arch="sm_100", triton="3.7.1"), "TF602") == []
    assert of(multiplied((DOT,), arch="sm_100", triton="3.7.1"), "TF602") == []


@pytest.mark.parametrize(
    ("version", "known"), [("3.2.0", 1), ("3.3.1", 0), ("3.6.0", 1), ("3.7.0+git1", 1), ("3.7.1", 0)]
)
def test_a_transposed_dot_as_operand_is_a_hazard_on_hopper_with_some_versions(version: str, known: int):
    dot = dataclasses.replace(DOT, operand="f16", precision="ieee", sources=(), transposed=True)
    found = of(multiplied((dot,), triton=version), "TF602")
    assert [f.severity for f in found] == ["information"] * known


def test_a_grid_that_cuda_cannot_start_is_an_error():
    case = multiplied()
    assert case.launch is not None

    def over(*grid: int) -> Case:
        config = dataclasses.replace(case.launch.config, grid=grid)  # type: ignore[union-attr]
        return dataclasses.replace(case, launch=dataclasses.replace(case.launch, config=config))

    assert [f.severity for f in of(over(1, 65_536, 1), "TF602")] == ["error"]
    assert of(over(65_536, 65_535, 65_535), "TF602") == []


def test_what_was_removed_is_an_error_where_the_launch_does_not_compile():
    source = (
        copy(1024)
        .replace("tl.load(x + i", "tl.math.tanh(tl.load(x + i")
        .replace("mask=i < n), mask", "mask=i < n)), mask")
    )
    kernel = kernel_of(source)
    launch = launch_of(kernel, (4,), x=tensor(4096), o=tensor(4096), n=4096, BLOCK=1024)
    compiled = compilation_of({}, launch)
    broken = dataclasses.replace(compiled, error="no attribute tanh")
    assert [f.severity for f in of(Case(kernel, launch, broken), "TF601")] == ["error"]
    assert of(Case(kernel, launch, compiled), "TF601") == []


def test_faults_that_were_seen_are_errors_at_their_lines():
    case = copied(x=tensor(1000))
    line = line_of(copy(1024), "tl.store")
    outside = Fault("out-of-bounds", "copy", "copy (line 8, program (0, 0, 0)): reads element 1000 of x", line)
    (finding,) = of(dataclasses.replace(case, faults=(outside,)), "TF508")
    assert (finding.severity, finding.range.start.line, finding.provenance) == ("error", line, "measured")
    race = Fault("write-write", "copy", "copy: program (0, 0, 0) writes another value than program (1, 0, 0)", line)
    (finding,) = of(dataclasses.replace(case, faults=(race,)), "TF506")
    assert finding.severity == "error"
    order = dataclasses.replace(race, kind="read-after-write", line=None)
    (finding,) = of(dataclasses.replace(case, faults=(order,)), "TF506")
    assert (finding.severity, finding.range) == ("warning", case.kernel.name_range)
    assert of(case, "TF508") == of(case, "TF506") == []


def test_one_tensor_given_twice_is_an_update_in_place():
    source = """
    @triton.autotune(configs=[triton.Config({"B": 512}), triton.Config({"B": 1024})], key=["n"])
    @triton.jit
    def double(x, o, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
    """
    kernel = kernel_of(source)
    one, other = (dataclasses.replace(tensor(4096), buffer=number) for number in (1, 2))
    same = Case(kernel, launch_of(kernel, (4,), x=one, o=one, n=4096, B=1024))
    assert [f.severity for f in of(same, "TF504")] == ["warning"]
    apart = Case(kernel, launch_of(kernel, (4,), x=one, o=other, n=4096, B=1024))
    assert of(apart, "TF504") == []


def test_the_known_grid_and_type_decide_about_races_and_order():
    source = """
    @triton.jit
    def total(x, out, flags, n, STORE: tl.constexpr, B: tl.constexpr):
        part = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)), 0)
        tl.atomic_add(flags, part)
        if STORE:
            tl.store(out, part)
    """
    kernel = kernel_of(source)
    store = line_of(source, "tl.store")

    def case(programs: int, dtype: str, *, stored: bool = True) -> Case:
        x, flags = tensor(4096), tensor(1, dtype=dtype)
        launch = launch_of(kernel, (programs,), x=x, out=tensor(1), flags=flags, n=4096, STORE=1, B=1024)
        lines = {store: LineWork(1, store_bytes=4.0)} if stored else {}
        return Case(kernel, launch, compilation_of(lines, launch))

    assert [f.severity for f in of(case(4, "float32"), "TF506")] == ["warning"]
    assert of(case(1, "float32"), "TF506") == []
    assert of(case(4, "float32", stored=False), "TF506") == []
    assert [f.severity for f in of(case(4, "float32"), "TF507")] == ["information"]
    assert of(case(4, "int32"), "TF507") == of(case(1, "float32"), "TF507") == []


def test_two_additions_to_a_zero_have_no_order_and_more_have():
    source = """
    @triton.jit
    def total(x, out, n, B: tl.constexpr):
        for i in range(0, n, B):
            tl.atomic_add(out, tl.sum(tl.load(x + tl.program_id(0) * n + i + tl.arange(0, B)), 0))
    """
    kernel = kernel_of(source)

    def case(programs: int, times: int) -> Case:
        launch = launch_of(kernel, (programs,), x=tensor(4096), out=tensor(1), n=1024 * times, B=1024)
        line = LineWork(times, atomic_ops=float(times), atomic_targets=1.0)
        return Case(kernel, launch, compilation_of({line_of(source, "tl.atomic_add"): line}, launch))

    assert of(case(2, 1), "TF507") == []
    assert [f.severity for f in of(case(3, 1), "TF507")] == ["information"]
    assert [f.severity for f in of(case(2, 2), "TF507")] == ["information"]
    assert of(case(1, 9), "TF507") == []


TTIR = """
module {
  tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f16>, %n: i32, %s: i32) attributes {noinline = false} {
    %c0 = arith.constant 0 : i32 loc(#loc1)
    %c1 = arith.constant 1 : i32 loc(#loc1)
    %c64 = arith.constant 64 : i32 loc(#loc1)
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32> loc(#loc1)
    %step = arith.constant dense<64> : tensor<64x64xi32> loc(#loc1)
    %pid = tt.get_program_id x : i32 loc(#loc2)
    %row = arith.muli %pid, %s : i32 loc(#loc2)
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32> loc(#loc2)
    %re = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32> loc(#loc2)
    %m = tt.splat %c64 : i32 -> tensor<64x1xi32> loc(#loc2)
    %rm = arith.muli %re, %m : tensor<64x1xi32> loc(#loc2)
    %ce = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32> loc(#loc2)
    %rb = tt.broadcast %rm : tensor<64x1xi32> -> tensor<64x64xi32> loc(#loc2)
    %cb = tt.broadcast %ce : tensor<1x64xi32> -> tensor<64x64xi32> loc(#loc2)
    %i = arith.addi %rb, %cb : tensor<64x64xi32> loc(#loc2)
    %rs = tt.splat %row : i32 -> tensor<64x64xi32> loc(#loc3)
    %o = arith.addi %rs, %i : tensor<64x64xi32> loc(#loc3)
    %ps = tt.splat %a : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>> loc(#loc3)
    %p = tt.addptr %ps, %o : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32> loc(#loc3)
    %q:2 = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero, %pk = %p) -> (tensor<64x64xf32>, tensor<64x64x!tt.ptr<f32>>)  : i32 {
      %x = tt.load %pk : tensor<64x64x!tt.ptr<f32>> loc(#loc4)
      %d1 = tt.dot %x, %x, %acc, inputPrecision = tf32 : tensor<64x64xf32> * tensor<64x64xf32> -> tensor<64x64xf32> loc(#loc5)
      %t = tt.trans %d1 {order = array<i32: 1, 0>} : tensor<64x64xf32> -> tensor<64x64xf32> loc(#loc6)
      %d2 = tt.dot %t, %x, %d1, inputPrecision = ieee : tensor<64x64xf32> * tensor<64x64xf32> -> tensor<64x64xf32> loc(#loc6)
      %pn = tt.addptr %pk, %step : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32> loc(#loc4)
      scf.yield %d2, %pn : tensor<64x64xf32>, tensor<64x64x!tt.ptr<f32>> loc(#loc4)
    } loc(#loc4)
    %h = arith.truncf %q#0 : tensor<64x64xf32> to tensor<64x64xf16> loc(#loc7)
    %sum = "tt.reduce"(%h) <{axis = 1 : i32}> ({
    ^bb0(%l: f16 loc(#loc7), %m2: f16 loc(#loc7)):
      %add = arith.addf %l, %m2 : f16 loc(#loc7)
      tt.reduce.return %add : f16 loc(#loc7)
    }) : (tensor<64x64xf16>) -> tensor<64xf16> loc(#loc7)
    %w = arith.remsi %r, %m9 : tensor<64xi32> loc(#loc8)
    %bs = tt.splat %b : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>> loc(#loc8)
    %bp = tt.addptr %bs, %r : tensor<64x!tt.ptr<f16>>, tensor<64xi32> loc(#loc8)
    %bw = tt.addptr %bs, %w : tensor<64x!tt.ptr<f16>>, tensor<64xi32> loc(#loc9)
    tt.store %bp, %sum : tensor<64x!tt.ptr<f16>> loc(#loc8)
    tt.store %bw, %sum : tensor<64x!tt.ptr<f16>> loc(#loc9)
    tt.return loc(#loc9)
  } loc(#loc)
} loc(#loc)
#loc = loc("k.py":1:0)
""" + "".join(f'#loc{n} = loc("k.py":{n}:0)\n' for n in range(1, 10))


def launch_of_text(trips: int, stride: int) -> RecordedLaunch:
    arguments = (("a", tensor(8)), ("b", tensor(8)), ("n", Scalar(trips)), ("s", Scalar(stride)))
    return RecordedLaunch(FILE, "k", 1, arguments, (), (), (5, 1, 1), CallSite("", 1, ""))


def test_extremes_follow_the_last_program_and_what_loops_carry_to_their_end():
    known = {(e.line, e.pointer): e for e in read_extremes(TTIR, launch_of_text(7, 10_000), "k.py")}
    assert known[4, "a"].highest == 4 * 10_000 + 63 * 64 + 63 + 6 * 64
    assert (known[4, "a"].lowest, known[4, "a"].program, known[4, "a"].masked) == (0, (4, 0, 0), False)
    assert known[8, "b"].highest == 63
    assert (9, "b") not in known, "nothing is known of a remainder by an unknown number"


def test_extremes_tell_where_a_product_passes_32_bits():
    seen = next(e for e in read_extremes(TTIR, launch_of_text(2, 600_000_000), "k.py") if e.line == 4)
    assert (seen.passed, seen.passed_line) == (4 * 600_000_000 + 63 * 64 + 63, 3)
    fine = next(e for e in read_extremes(TTIR, launch_of_text(2, 500_000_000), "k.py") if e.line == 4)
    assert (fine.passed, fine.widest) == (0, 4 * 500_000_000 + 63 * 64 + 63)


def test_extremes_of_a_loop_that_does_not_run_are_none():
    assert all(e.line != 4 for e in read_extremes(TTIR, launch_of_text(0, 1), "k.py"))


def test_formats_tell_dots_that_chain_and_transpose_and_sums_in_half_precision():
    dots, sums = read_formats(TTIR, "k.py")
    first, second = dots
    assert (first.line, first.precision, first.sources, first.chained) == (5, "tf32", ("a",), False)
    assert (second.line, second.precision, second.chained, second.transposed) == (6, "ieee", True, True)
    assert second.rounded
    assert sums == (SumFormat(7, "f16", 64),)


def test_texts_that_are_no_module_have_no_extremes_and_formats():
    assert read_extremes("nonsense {", launch_of_text(1, 1), "k.py") == ()
    assert read_formats("tt.dot nonsense", "k.py") == ((), ())


def refused(error: str) -> Finding:
    kernel = kernel_of(copy(1024))
    x = tensor(4096)
    launch = launch_of(kernel, (4,), x=x, o=x, n=4096, BLOCK=1024)
    compilation = dataclasses.replace(compilation_of({}, launch), error=error, resources=None, work=None)
    (finding,) = of(Case(kernel, launch, compilation), "TF603")
    return finding


def test_a_launch_that_does_not_compile_is_an_error_at_the_line_that_the_compiler_names():
    line = line_of(copy(1024), "tl.store")
    finding = refused(f"copy does not compile: line {line}: AttributeError: no attribute 'nonsense'")
    assert (finding.severity, finding.provenance, finding.range.start.line) == ("error", "compiled", line)
    assert finding.message == "copy does not compile for sm_90: AttributeError: no attribute 'nonsense'."


@pytest.mark.parametrize(
    "error", ["copy needs 999 bytes of shared memory.", "", "copy does not compile: line 9999: why"]
)
def test_a_refusal_without_a_line_of_the_kernel_is_shown_at_its_name(error):
    finding = refused(error)
    assert finding.range == kernel_of(copy(1024)).name_range
    assert finding.message.endswith(".")


def test_what_compiles_is_no_refusal():
    assert of(copied(x=tensor(4096)), "TF603") == []
