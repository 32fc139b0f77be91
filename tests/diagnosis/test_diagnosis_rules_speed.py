"""What the rules about speed say that look at launches, loops and instructions; each with cases in which it is silent."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest
from diagnosis_cases import (
    COPY,
    FILE,
    H200,
    N,
    compilation_of,
    copy,
    copy_case,
    kernel_of,
    launch_of,
    line_of,
    matmul,
    matmul_case,
    measured,
    predicted,
    tensor,
)

from tritonforge.diagnosis import Case, diagnose
from tritonforge.domain.blocks import Atomic, Conversion, Dot, GlobalAccess, Loop
from tritonforge.domain.compilation import LineInstructions, LineWork, Occupancy
from tritonforge.domain.counters import Counters, LineCounters
from tritonforge.domain.finding import Finding
from tritonforge.domain.launch import ExactValues, Launch
from tritonforge.prediction.parts import OLD_PATH_SHARE


def hints(source: str, code: str) -> list[Finding]:
    return [f for f in diagnose(kernel_of(source)) if f.code == code]


def found(case: Case, code: str) -> list[Finding]:
    return [f for f in diagnose(case.kernel, [case]) if f.code == code]


def compiled_with(case: Case, **facts: object) -> Case:
    assert case.compilation is not None
    return dataclasses.replace(case, compilation=dataclasses.replace(case.compilation, **facts))  # type: ignore[arg-type]


def counted(case: Case, stalls: dict[str, float], line: int | None = None, **metrics: float) -> Case:
    lines = {line: LineCounters(samples=100)} if line is not None else {}
    return dataclasses.replace(case, counters=Counters("kernel", "nsight", metrics=metrics, stalls=stalls, lines=lines))


# --- narrow accesses ------------------------------------------------------------------------------------------------


def narrow_case(lane: int = 4, widest: int = 16, **more: object) -> Case:
    """A copy of 8 elements per lane that reaches half of its roofline."""
    line = line_of(COPY, "tl.store")
    access = GlobalAccess(line, "load", "x", "f32", (1024,), executions=1.0, lane_bytes=lane, widest_bytes=widest,
                          masked=False, replicas=1, data_dependent=False)  # fmt: skip
    case = dataclasses.replace(copy_case(1024), time=measured(250.0), prediction=predicted(125.0))
    return compiled_with(case, accesses=(dataclasses.replace(access, **more),))  # type: ignore[arg-type]


def test_narrow_access_says_what_a_lane_moves_and_what_it_could():
    (finding,) = found(narrow_case(), "TF102")
    assert finding.severity == "information"
    assert (finding.evidence["lane_bytes"].value, finding.evidence["possible_bytes"].value) == (4, 16)
    assert "tl.multiple_of" in finding.message
    (masked,) = found(narrow_case(masked=True), "TF102")
    assert "The mask ends" in masked.message


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("the addresses are no better", {"widest": 4}),
        ("half of the widest is good enough", {"lane": 8}),
        ("a lane has one element only", {"shape": (128,)}),
        ("lanes repeat each other", {"replicas": 4}),
        ("it is a gather", {"data_dependent": True}),
    ],
)
def test_narrow_access_is_silent_when(why: str, more: dict[str, object]):
    assert found(narrow_case(**more), "TF102") == [], why  # type: ignore[arg-type]


def test_narrow_access_is_silent_at_the_roofline_and_without_the_facts():
    assert found(dataclasses.replace(narrow_case(), time=measured(136.0)), "TF102") == []
    assert found(compiled_with(narrow_case(), accesses=None), "TF102") == []


def test_narrow_access_warns_where_it_keeps_a_dot_waiting_or_the_queue_full():
    (throttled,) = found(counted(narrow_case(), {"lg_throttle": 0.4}), "TF102")
    assert throttled.severity == "warning"
    source = matmul(128, 128)
    header, line = line_of(source, "for k"), line_of(source, "x = tl.load")
    access = GlobalAccess(line, "load", "a", "f16", (128, 32), header, 128.0, 2, 16, False, replicas=1,
                          data_dependent=False)  # fmt: skip
    loop = Loop(header, trips=128.0, stages_used=1, loads=2, dots=1)
    case = dataclasses.replace(matmul_case(128, 128), time=measured(900.0))
    (finding,) = found(compiled_with(case, accesses=(access,), loops=(loop,)), "TF102")
    assert finding.severity == "warning"
    assert "asynchronous copy" in finding.message


# --- gathers --------------------------------------------------------------------------------------------------------

GATHER = """
@triton.jit
def gather(x, index, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(index + i, mask=i < n, other=0)
    v = tl.load(x + j, mask=i < n)
    tl.store(o + i, v, mask=i < n)
"""


def gather_case(values: np.ndarray, n: int = N) -> Case:
    kernel = kernel_of(GATHER)
    index = dataclasses.replace(tensor(n, dtype="int64"), values=ExactValues(zlib.compress(values.tobytes())))
    launch = launch_of(kernel, (n // 1024,), x=tensor(n), index=index, o=tensor(n), n=n, BLOCK=1024)
    lines = {
        line_of(GATHER, "j = tl.load"): LineWork(1, load_bytes=8192.0, moved_bytes=8192.0),
        line_of(GATHER, "v = tl.load"): LineWork(1, load_bytes=4096.0, moved_bytes=32768.0),
        line_of(GATHER, "tl.store"): LineWork(1, store_bytes=4096.0, moved_bytes=4096.0),
    }
    return Case(kernel, launch, compilation_of(lines, launch), time=measured(900.0), gpu=H200)


def test_gather_scatter_hints_at_elements_at_loaded_places_and_not_at_rows():
    (finding,) = hints(GATHER, "TF108")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(GATHER, "v = tl.load")
    assert finding.evidence["indexes"].value == "index"
    rows = GATHER.replace("x + j,", "x + j[:, None] * 64 + tl.arange(0, 64)[None, :],").replace(
        "mask=i < n)", "mask=(i < n)[:, None])"
    )
    assert hints(rows, "TF108") == []
    assert hints(GATHER.replace("index + i, mask=i < n, other=0", "index + tl.program_id(0)"), "TF108") == []


def test_gather_scatter_judges_by_the_recorded_indices():
    scattered = np.random.default_rng(0).permutation(1 << 16)
    (finding,) = found(gather_case(scattered), "TF108")
    assert finding.severity == "information"
    # 32 elements of 4 bytes fill 4 sectors, and random places hit a sector each.
    assert finding.evidence["sectors_per_needed"].value == pytest.approx(8, rel=0.02)
    assert found(gather_case(np.arange(1 << 16)), "TF108") == []


# --- cache hints ----------------------------------------------------------------------------------------------------

SCALED = """
@triton.jit
def scaled(x, w, o, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    u = tl.load(w + i % width)
    tl.store(o + i, v * u)
"""


def scaled_case(source: str = SCALED, width: int = 4 << 20) -> Case:
    kernel = kernel_of(source)
    launch = launch_of(kernel, (N // 1024,), x=tensor(N), w=tensor(width), o=tensor(N), n=N, width=width, BLOCK=1024)
    lines = {
        line_of(source, text): LineWork(1, load_bytes=4096.0, moved_bytes=4096.0, pointers=(name,))
        for text, name in (("v = tl.load", "x"), ("u = tl.load", "w"))
    } | {line_of(source, "tl.store"): LineWork(1, store_bytes=4096.0, moved_bytes=4096.0)}
    case = Case(kernel, launch, compilation_of(lines, launch), predicted(300.0, "dram", dram=280.0), gpu=H200)
    return dataclasses.replace(case, time=measured(400.0))


def test_missing_cache_hint_points_at_the_stream_that_pushes_out_what_is_reused():
    (finding,) = found(scaled_case(), "TF109")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(SCALED, "v = tl.load")
    assert (finding.evidence["reused"].value, finding.evidence["times_read"].value) == ("w", 16)


def test_missing_cache_hint_is_silent_with_a_hint_with_small_operands_and_where_memory_moves_no_more_than_it_must():
    assert found(scaled_case(SCALED.replace("x + i)", 'x + i, eviction_policy="evict_first")')), "TF109") == []
    assert found(scaled_case(width=1024), "TF109") == []
    kept = counted(scaled_case(), {}, dram_throughput=0.8, dram_bytes=2.2 * N * 4)
    assert found(kept, "TF109") == []
    lost = counted(scaled_case(), {}, dram_throughput=0.8, dram_bytes=3.0 * N * 4)
    assert [f.severity for f in found(lost, "TF109")] == ["information"]


# --- layouts --------------------------------------------------------------------------------------------------------


def converting_case(**more: object) -> Case:
    source = matmul(128, 128)
    line, header = line_of(source, "x = tl.load"), line_of(source, "for k")
    conversion = Conversion(line, "blocked", "linear", "f32", (128, 32), 16384.0, header, 128.0, "shared")
    case = dataclasses.replace(matmul_case(128, 128), time=measured(900.0), prediction=predicted(900.0, "latency"))
    return compiled_with(case, conversions=(dataclasses.replace(conversion, **more),))  # type: ignore[arg-type]


def test_layout_conversion_is_information_and_a_warning_where_warps_wait_for_it():
    (finding,) = found(converting_case(), "TF110")
    assert finding.severity == "information"
    assert finding.evidence["conversion"].value == "blocked → linear"
    # Written and read 128 times, while each operand of 128×4,096 fp16 elements is loaded once.
    assert finding.evidence["shared_to_global_bytes"].value == pytest.approx(
        2 * 16384 * 128 / (2 * 128 * 4096 * 2 + 32768), abs=1e-4
    )
    waiting = counted(converting_case(), {"short_scoreboard": 0.9, "barrier": 0.1}, finding.range.start.line)
    assert [f.severity for f in found(waiting, "TF110")] == ["warning"]


def test_layout_conversion_tells_a_sum_in_a_dots_layout_to_stand_alone():
    (finding,) = found(converting_case(target="mma"), "TF110")
    assert "a block of its own" in finding.message


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("lanes exchange it themselves", {"through": "shuffle"}),
        ("it stands behind the loop", {"loop": None}),
        ("a dot needs it", {"target": "dot-operand"}),
        ("it comes out of a dot", {"source": "mma"}),
        ("it is a row", {"shape": (4096,)}),
        ("it runs a few times", {"executions": 2.0}),
        ("it is small", {"nbytes": 512.0}),
    ],
)
def test_layout_conversion_is_silent_when(why: str, more: dict[str, object]):
    assert found(converting_case(**more), "TF110") == [], why


def test_layout_conversion_is_silent_where_memory_sets_the_pace():
    assert found(dataclasses.replace(converting_case(), prediction=predicted(900.0, "dram")), "TF110") == []


# --- matrix instructions --------------------------------------------------------------------------------------------


def old_path_case(rows: int = 32, warps: int = 4, arch: str = "sm_90", source: str = "") -> Case:
    case = matmul_case(128, 128, path="mma", warps=warps)
    line = line_of(matmul(128, 128), "tl.dot(")
    dot = Dot(line, "mma", (rows, 128, 32), "f16", "f16", "f32", executions=128.0)
    prediction = predicted(800.0, "tensor", tensor=790.0, l2=400.0)
    case = compiled_with(dataclasses.replace(case, prediction=prediction, time=measured(800.0)), dots=(dot,), arch=arch)
    return dataclasses.replace(case, kernel=kernel_of(source)) if source else case


def test_weak_tensor_core_path_says_what_stands_in_the_way():
    (rows,) = found(old_path_case(rows=32), "TF202")
    assert rows.severity == "warning"
    assert "at least 64 rows" in rows.message
    assert rows.evidence["possible_path"].value == "wgmma"
    # Half of what `mma` lacks at most: the other part of the time model is at half of the tensor part.
    assert rows.estimated_gain == pytest.approx(1 / OLD_PATH_SHARE["sm_90"], rel=0.01)
    (warps,) = found(old_path_case(rows=64, warps=2), "TF202")
    assert "no multiple of four" in warps.message
    (operands,) = found(old_path_case(rows=64), "TF202")
    assert "K-major" in operands.message


def test_weak_tensor_core_path_is_silent_where_mma_is_the_best_and_where_tensor_cores_do_not_set_the_pace():
    assert found(old_path_case(arch="sm_80"), "TF202") == []
    assert found(old_path_case(arch="sm_120"), "TF202") == []
    assert found(dataclasses.replace(old_path_case(), prediction=predicted(800.0, "l2")), "TF202") == []
    assert found(compiled_with(old_path_case(), dots=None), "TF202") == []


def test_weak_tensor_core_path_leaves_an_autotuners_choice_at_information():
    tuned = matmul(128, 128).replace(
        "@triton.jit", '@triton.autotune(configs=[triton.Config({"BM": 64})], key=["M"])\n@triton.jit'
    )
    assert [f.severity for f in found(old_path_case(source=tuned), "TF202")] == ["information"]


# --- slow arithmetic ------------------------------------------------------------------------------------------------

GATED = """
@triton.jit
def gated(x, o, n, width, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    for _ in range(0, 64):
        v = tl.exp(v)
    c = i % width
    tl.store(o + i, v + c, mask=i < n)
"""


def gated_case(prediction: str, **parts: float) -> Case:
    kernel = kernel_of(GATED)
    launch = launch_of(kernel, (N // 1024,), x=tensor(N), o=tensor(N), n=N, width=77, BLOCK=1024)
    exp, modulo = line_of(GATED, "tl.exp"), line_of(GATED, "i % width")
    lines = {
        exp: LineWork(64, special_ops=65536.0),
        modulo: LineWork(1),
        line_of(GATED, "v = tl.load"): LineWork(1, 4096.0),
    }
    mix = {
        exp: LineInstructions({"special": 8, "alu": 8}, executed={"special": 2048.0, "alu": 2048.0}),
        modulo: LineInstructions({"int": 160}, functions={"int_div": 8}, executed={"int": 8000.0}),
    }
    compilation = compilation_of(lines, launch, instructions=mix)
    return Case(kernel, launch, compilation, predicted(sum(parts.values()), prediction, **parts), gpu=H200)


def test_slow_math_warns_where_the_special_units_are_predicted_or_counted_to_decide():
    (finding,) = found(gated_case("special", special=900.0, dram=50.0), "TF204")
    assert finding.severity == "warning"
    assert finding.provenance == "predicted"
    assert finding.range.start.line == line_of(GATED, "tl.exp")
    assert finding.evidence["operation"].value == "exp"
    (busy,) = found(counted(gated_case("dram", dram=900.0), {}, xu_active=0.85), "TF204")
    assert busy.evidence["special_units_busy"].value == 0.85


def test_slow_math_finds_the_operation_that_becomes_many_instructions():
    (finding,) = found(gated_case("alu", alu=900.0, dram=50.0), "TF204")
    assert finding.evidence["operation"].value == "%"
    assert finding.evidence["share_of_instructions"].value == pytest.approx(8000 / 12096, abs=1e-3)


def test_slow_math_is_silent_where_memory_decides_and_where_counters_contradict_the_model():
    assert found(gated_case("dram", dram=900.0, special=500.0), "TF204") == []
    assert found(gated_case("special", special=500.0, dram=490.0), "TF204") == []
    idle = counted(gated_case("special", special=900.0), {}, xu_active=0.2, issue_active=0.2, dram_throughput=0.3)
    assert found(idle, "TF204") == []
    assert hints(GATED, "TF204") == []


def test_slow_math_says_nothing_of_a_small_constant_power():
    case = gated_case("alu", alu=900.0, dram=50.0)
    squared = kernel_of(GATED.replace("i % width", "v ** 2"))
    assert found(dataclasses.replace(case, kernel=squared), "TF204") == []


# --- loads that repeat ----------------------------------------------------------------------------------------------

BIASED = """
@triton.jit
def biased(x, bias, o, T, D: tl.constexpr):
    c = tl.arange(0, D)
    for t in range(0, T):
        b = tl.load(bias + c)
        v = tl.load(x + t * D + c)
        tl.store(o + t * D + c, v + b)
"""


def biased_case(executions: float) -> Case:
    kernel = kernel_of(BIASED)
    launch = launch_of(kernel, (132,), x=tensor(4096, 1024), bias=tensor(1024), o=tensor(4096, 1024), T=4096, D=1024)
    lines = {
        line_of(BIASED, "for t"): LineWork(4096),
        line_of(BIASED, "b = tl.load"): LineWork(executions, load_bytes=4096.0 * executions),
        line_of(BIASED, "v = tl.load"): LineWork(4096, load_bytes=4096.0 * 4096),
        line_of(BIASED, "tl.store"): LineWork(4096, store_bytes=4096.0 * 4096),
    }
    return Case(kernel, launch, compilation_of(lines, launch), time=measured(5000.0), gpu=H200)


def test_loop_invariant_work_is_a_hint_in_the_source_and_information_where_the_compiler_left_it_inside():
    (hint,) = hints(BIASED, "TF205")
    assert hint.severity == "hint"
    assert hint.range.start.line == line_of(BIASED, "b = tl.load")
    (finding,) = found(biased_case(4096), "TF205")
    assert finding.severity == "information"
    assert finding.evidence["share_of_bytes"].value == pytest.approx(1 / 3, abs=1e-3)
    hot = counted(biased_case(4096), {"long_scoreboard": 0.9}, hint.range.start.line)
    assert [f.severity for f in found(hot, "TF205")] == ["warning"]


def test_loop_invariant_work_is_silent_where_the_compiler_moved_the_load():
    assert found(biased_case(1), "TF205") == []


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("the loop writes nothing, so the compiler moves it", "tl.store(o + t * D + c, v + b)", "c += 0"),
        ("the kernel writes there", "o + t * D", "bias + t * D"),
        ("the mask changes", "bias + c", "bias + c, mask=c < t"),
        ("it stands under a condition that changes", "b = tl.load(bias + c)", "b = 0.0\n        if t > 3:\n            b = tl.load(bias + c)"),
        ("the address changes through another name", "bias + c)", "bias + c)\n        d = c + 1\n        c = d"),
        ("it is unrolled", "range(0, T)", "tl.static_range(0, 64)"),
        ("it is one element", "bias + c", "bias"),
        ("few rounds", "range(0, T)", "range(0, 3)"),
    ],
)  # fmt: skip
def test_loop_invariant_work_is_silent_when(why: str, old: str, new: str):
    assert old in BIASED
    assert hints(BIASED.replace(old, new), "TF205") == [], why


# --- pipelines and chains -------------------------------------------------------------------------------------------

FEW = Occupancy(fraction=0.125, programs_per_sm=1, warps_per_sm=4, limiter="registers")


def waiting_case(**more: object) -> Case:
    header = line_of(matmul(128, 128), "for k")
    loop = Loop(header, trips=128.0, stages_asked=1, stages_used=1, loads=2, dots=1)
    case = matmul_case(128, 128, occupancy=FEW)
    case = dataclasses.replace(case, time=measured(900.0), prediction=predicted(900.0, "latency"))
    return compiled_with(case, loops=(dataclasses.replace(loop, **more),))  # type: ignore[arg-type]


def test_not_pipelined_warns_where_one_stage_was_asked_for():
    (finding,) = found(waiting_case(), "TF206")
    assert finding.severity == "warning"
    assert finding.range.start.line == line_of(matmul(128, 128), "for k")
    assert "num_stages" in finding.message
    (unknown,) = found(waiting_case(stages_asked=3), "TF206")
    assert unknown.severity == "information"
    (counter,) = found(waiting_case(kind="while", trips=None), "TF206")
    assert "`while`" in counter.message


def test_not_pipelined_believes_counters():
    assert [f.severity for f in found(counted(waiting_case(), {"long_scoreboard": 0.6}), "TF206")] == ["warning"]
    assert [f.severity for f in found(counted(waiting_case(), {"wait": 0.6}), "TF206")] == ["hint"]


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("copies run ahead", {"stages_used": 3, "async_copies": 2}),
        ("there is no dot", {"dots": 0}),
        ("few rounds", {"trips": 4.0}),
        ("nothing is known of its stages", {"stages_used": None}),
    ],
)
def test_not_pipelined_is_silent_when(why: str, more: dict[str, object]):
    assert found(waiting_case(**more), "TF206") == [], why


def test_not_pipelined_is_silent_with_many_warps_and_where_copies_do_not_exist():
    many = dataclasses.replace(FEW, programs_per_sm=8, warps_per_sm=32)
    assert found(compiled_with(waiting_case(), occupancy=many), "TF206") == []
    assert found(compiled_with(waiting_case(), arch="sm_75"), "TF206") == []
    assert found(compiled_with(waiting_case(), arch="gfx942"), "TF206") == []


def chain_case(**more: object) -> Case:
    header = line_of(GATED, "for _")
    loop = Loop(header, trips=64.0, instructions=30, chain=25, carried_chain=25)
    case = compiled_with(gated_case("latency", latency=900.0), occupancy=FEW)
    return compiled_with(case, loops=(dataclasses.replace(loop, **more),))  # type: ignore[arg-type]


def test_insufficient_ilp_is_information_and_a_warning_where_warps_are_counted_to_wait():
    (finding,) = found(chain_case(), "TF208")
    assert finding.severity == "information"
    assert finding.evidence["independent_instructions"].value == pytest.approx(1.2)
    assert finding.evidence["warps_per_sm"].value == 4
    assert "each iteration needs the one before" in finding.message
    slow = counted(chain_case(), {"wait": 0.5}, issue_active=0.2)
    assert [f.severity for f in found(slow, "TF208")] == ["warning"]


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("instructions are independent", {"chain": 10}),
        ("few rounds", {"trips": 8.0}),
        ("it waits for memory", {"loads": 1}),
        ("no machine loop was recognised", {"chain": None}),
    ],
)
def test_insufficient_ilp_is_silent_when(why: str, more: dict[str, object]):
    assert found(chain_case(**more), "TF208") == [], why


def test_insufficient_ilp_is_silent_with_many_warps_and_full_issue_slots():
    many = dataclasses.replace(FEW, programs_per_sm=8, warps_per_sm=32)
    assert found(compiled_with(chain_case(), occupancy=many), "TF208") == []
    assert found(counted(chain_case(), {"wait": 0.5}, issue_active=0.5), "TF208") == []


# --- oversized tiles ------------------------------------------------------------------------------------------------


def wide_case(cols: int, *, pace: str = "alu", spill: int = 0, **parts: float) -> Case:
    source = copy("triton.next_power_of_2(n)")
    kernel = kernel_of(source)
    block = 1 << (cols - 1).bit_length()
    launch = launch_of(kernel, (65536,), x=tensor(65536, cols), o=tensor(65536, cols), n=cols, BLOCK=block)
    line = line_of(source, "tl.store")
    lines = {line: LineWork(1, 4.0 * block, 4.0 * block, unmasked_fraction=cols / block, moved_bytes=8.0 * cols)}
    local = {"load_local": 4000, "store_local": 4000} if spill else {"alu": 8}
    compilation = compilation_of(lines, launch, spill=spill, instructions={line: LineInstructions(local)})
    return Case(kernel, launch, compilation, predicted(5000.0, pace, **(parts or {pace: 4900.0})), gpu=H200)


def test_block_too_large_counts_the_lanes_that_are_off_and_bounds_the_gain():
    (finding,) = found(wide_case(4100, alu=4900.0, dram=3500.0), "TF305")
    assert finding.severity == "information"
    assert finding.evidence["lanes_off"].value == pytest.approx(1 - 4100 / 8192, abs=1e-3)
    # Without those lanes memory would decide.
    assert finding.estimated_gain == pytest.approx(4900 / 3500, rel=0.01)


def test_block_too_large_is_silent_where_the_tile_fits_or_memory_waits_anyway():
    assert found(wide_case(8000), "TF305") == []
    assert found(wide_case(4100, pace="dram"), "TF305") == []
    assert found(wide_case(4100, alu=4900.0, dram=4800.0), "TF305") == []


def test_block_too_large_names_a_whole_row_that_spills_and_warns_once_measured():
    case = dataclasses.replace(
        wide_case(65536, pace="spill", spill=400), prediction=predicted(50_000.0, "spill", spill=49_000.0)
    )
    assert [f.severity for f in found(case, "TF305")] == ["information"]
    (finding,) = found(dataclasses.replace(case, time=measured(50_000.0)), "TF305")
    assert finding.severity == "warning"
    assert finding.evidence["elements_per_lane"].value == 512
    assert found(dataclasses.replace(wide_case(65536), prediction=case.prediction), "TF305") == []


# --- compiling and tuning -------------------------------------------------------------------------------------------

SIZED = """
@triton.jit
def scale(x, o, n_rows: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n_rows), mask=i < n_rows)


def host(x, o):
    n_rows = x.shape[0]
    scale[(triton.cdiv(n_rows, 1024),)](x, o, n_rows, BLOCK=1024)
"""


def test_recompilation_hints_at_a_length_that_is_a_constexpr_where_it_is_passed():
    (finding,) = hints(SIZED, "TF402")
    assert finding.severity == "hint"
    assert finding.range.start.line == line_of(SIZED, "scale[")
    assert "`n_rows` follows the data's length" in finding.message


def test_recompilation_is_information_where_a_host_loop_counts_it():
    looped = SIZED.replace("    scale[(", "    for n in range(0, n_rows):\n        scale[(").replace(
        "o, n_rows, B", "o, n * 2, B"
    )
    (finding,) = hints(looped, "TF402")
    assert finding.severity == "information"
    assert "every round of a host loop" in finding.message
    assert hints(looped.replace("range(0, n_rows)", "range(0, 3)").replace("n_rows: tl", "width: tl"), "TF402") == []


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("it is an ordinary argument", "n_rows: tl.constexpr", "n_rows"),
        ("it is a width", "n_rows", "n_cols"),
        ("the host rounds it", "o, n_rows,", "o, triton.next_power_of_2(n_rows),"),
        ("it is a literal", "o, n_rows,", "o, 4096,"),
        ("it bounds an unrolled loop", "    tl.store", "    for k in tl.static_range(n_rows):\n        i += k\n    tl.store"),
    ],
)  # fmt: skip
def test_recompilation_is_silent_when(why: str, old: str, new: str):
    assert hints(SIZED.replace(old, new), "TF402") == [], why


def test_recompilation_counts_the_values_of_the_known_launches():
    kernel = kernel_of(SIZED)

    def launch(n: int) -> Launch:
        made = launch_of(kernel, (1,), x=tensor(n), o=tensor(n), n_rows=n, BLOCK=1024)
        return dataclasses.replace(made, id=str(n))

    cases = [Case(kernel, launch(n), compilation_of({}, launch(n), compile_ms=700.0), gpu=H200) for n in (96, 128, 200)]
    (finding,) = [f for f in diagnose(kernel, cases) if f.code == "TF402"]
    assert finding.severity == "information"
    assert finding.evidence["values"].value == "96, 128, 200"
    assert "0.7 s each" in finding.message
    (one,) = [f for f in diagnose(kernel, cases[:1]) if f.code == "TF402"]
    assert one.severity == "hint"


def tuned(key: str, configs: str, *, argument: str = "n_tokens") -> str:
    return f"""
@triton.autotune(configs={configs}, key={key})
@triton.jit
def copy(x, o, n_tokens, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n_tokens), mask=i < n_tokens)


def host(x, o, n_tokens):
    copy[lambda meta: (triton.cdiv(n_tokens, meta["BLOCK"]),)](x, o, {argument})
"""


FOUR = '[triton.Config({"BLOCK": b}, num_warps=w) for b in (512, 1024) for w in (4, 8)]'


def test_autotune_thrash_hints_at_a_key_that_follows_the_data():
    (finding,) = hints(tuned('["n_tokens"]', FOUR), "TF403")
    assert finding.severity == "hint"
    assert finding.evidence["changing_key"].value == "n_tokens"
    assert "all 4 configurations" in finding.message


def test_autotune_thrash_finds_what_triton_leaves_out_or_refuses_or_does_twice():
    (ignored,) = hints(tuned('["N_TOKENS"]', FOUR), "TF403")
    assert ignored.severity == "information"
    assert "no parameter of the kernel" in ignored.message
    (refused,) = hints(tuned("[]", FOUR.replace("(4, 8)", "(4, 6)")), "TF403")
    assert refused.evidence["impossible"].value == "num_warps=6"
    (twice,) = hints(
        tuned("[]", '[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 512}, num_warps=4)]'), "TF403"
    )
    assert "Listed more than once" in twice.message
    many = FOUR.replace("(4, 8)]", "(1, 2, 4, 8) for s in range(1, 9)]").replace("=w)", "=w, num_stages=s)")
    (finding,) = hints(tuned("[]", many), "TF403")
    assert finding.severity == "hint"
    assert "64 configurations" in finding.message


@pytest.mark.parametrize(
    ("why", "source"),
    [
        ("no key", tuned("[]", FOUR)),
        ("a bucket", tuned('["n_tokens"]', FOUR, argument="triton.next_power_of_2(n_tokens)")),
        ("three configurations", tuned('["n_tokens"]', '[triton.Config({"BLOCK": b}) for b in (256, 512, 1024)]')),
        ("a width", tuned('["n_cols"]', FOUR).replace("n_tokens", "n_cols")),
        ("no autotuner", copy(1024)),
    ],
)
def test_autotune_thrash_is_silent_with(why: str, source: str):
    assert hints(source, "TF403") == [], why


UNROLLED = """
@triton.jit
def unrolled(x, o, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(0, 128):
        acc += tl.load(x + k * BLOCK + i)
    tl.store(o + i, acc)
"""


def unrolled_case(instructions: int, compile_ms: float = 0.0) -> Case:
    kernel = kernel_of(UNROLLED)
    launch = launch_of(kernel, (1,), x=tensor(1 << 17), o=tensor(1024), ROUNDS=128, BLOCK=1024)
    mix = {
        line_of(UNROLLED, "acc +="): LineInstructions({"alu": instructions}),
        line_of(UNROLLED, "tl.store"): LineInstructions({"store_global": 2}),
    }
    return Case(kernel, launch, compilation_of({}, launch, instructions=mix, compile_ms=compile_ms), gpu=H200)


def test_slow_compilation_hints_at_many_copies_and_warns_of_a_large_kernel_that_took_long():
    (hint,) = hints(UNROLLED, "TF405")
    assert hint.severity == "hint"
    assert hint.evidence["copies"].value == 128
    (large,) = found(unrolled_case(9000), "TF405")
    assert large.severity == "information"
    assert large.evidence["instructions"].value == 9002
    (slow,) = found(unrolled_case(30000, 14_000.0), "TF405")
    assert slow.severity == "warning"


def test_slow_compilation_is_silent_for_short_loops_and_small_kernels():
    assert hints(UNROLLED.replace("128", "16"), "TF405") == []
    assert hints(UNROLLED.replace("tl.static_range", "tl.range"), "TF405") == []
    assert found(unrolled_case(3000), "TF405") == []


def test_source_alone_never_gives_a_warning_about_speed():
    for source in (GATHER, SCALED, GATED, BIASED, SIZED, UNROLLED, tuned('["n_tokens"]', FOUR)):
        assert {f.severity for f in diagnose(kernel_of(source))} <= {"hint", "information"}, FILE


# --- the last round of programs -------------------------------------------------------------------------------------


def tail_case(programs: int, per_sm: int, dominant: str = "alu") -> Case:
    """Programs of a copy that together take 900 µs, `per_sm` of them at once on an SM."""
    resident = Occupancy(fraction=0.5, programs_per_sm=per_sm, warps_per_sm=32, limiter="registers")
    kernel = kernel_of(COPY)
    launch = launch_of(kernel, (programs,), x=tensor(N), o=tensor(N), n=N, BLOCK=1024)
    lines = {line_of(COPY, "tl.store"): LineWork(1, load_bytes=4096.0, store_bytes=4096.0, moved_bytes=8192.0)}
    compilation = compilation_of(lines, launch, occupancy=resident)
    return Case(kernel, launch, compilation, predicted(900.0, dominant), gpu=H200)


def test_a_tail_is_sure_where_each_sm_works_on_its_own_and_has_one_program_more_than_others():
    (finding,) = found(tail_case(140, per_sm=1), "TF303")
    assert finding.severity == "information"
    assert finding.evidence["busy"].value == pytest.approx(140 / 264, abs=1e-3)


@pytest.mark.parametrize(
    ("why", "case"),
    [
        ("programs that start as others end are spread over the SMs", tail_case(1536, per_sm=8)),
        ("the last programs have all of L2 for themselves", tail_case(140, per_sm=1, dominant="spill")),
    ],
)
def test_a_tail_that_need_not_cost_anything_is_a_hint(why: str, case: Case):
    (finding,) = found(case, "TF303")
    assert finding.severity == "hint", why
    assert "if those of a round end together" in finding.message


def test_whole_rounds_have_no_tail():
    assert found(tail_case(264, per_sm=1), "TF303") == []


# --- atomics --------------------------------------------------------------------------------------------------------

ADD = """
@triton.jit
def add(x, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.atomic_add(o + c, tl.load(x + row * n + c, mask=c < n, other=0.0))
"""


def adding_case(rows: int = 8192, lanes_each: float = 1.0, **atomic: object) -> Case:
    """Rows of 4096 elements that are added up in `o`; each instruction adds `lanes_each` elements a lane."""
    line = line_of(ADD, "tl.atomic_add")
    kernel = kernel_of(ADD)
    launch = launch_of(kernel, (rows,), x=tensor(rows, 4096), o=tensor(4096), n=4096, BLOCK=4096)
    work = {line: LineWork(1, load_bytes=16384.0, moved_bytes=16384.0, atomic_ops=4096.0, atomic_targets=4096.0)}
    issued = {"atomic": 4096 / 32 / lanes_each}
    instructions = {line: LineInstructions({"atomic": 4}, executed=issued)}
    known = Atomic(
        line, "fadd", "f32", (4096,), "acq_rel", "gpu", "o", executions=1.0, result_used=False, distinct=4096
    )
    known = dataclasses.replace(known, **atomic)  # type: ignore[arg-type]
    compilation = compilation_of(work, launch, instructions=instructions, atomics=(known,))
    return Case(kernel, launch, compilation, predicted(50.0, "dram", dram=33.0), gpu=H200)


def test_ordered_atomics_on_few_addresses_are_waited_for():
    (finding,) = found(adding_case(), "TF107")
    assert finding.evidence["atomic_time"].value == pytest.approx(8192 * 4096 / 40e3, rel=0.01)


def test_an_instruction_that_adds_four_elements_a_lane_costs_as_one():
    (finding,) = found(adding_case(lanes_each=4.0), "TF107")
    assert finding.evidence["atomic_time"].value == pytest.approx(8192 * 1024 / 40e3, rel=0.01)


def test_relaxed_atomics_that_nobody_waits_for_are_hidden_behind_the_rest():
    assert found(adding_case(ordering="relaxed"), "TF107") == []
    assert found(adding_case(ordering="relaxed", result_used=True), "TF107") != []


def test_atomics_of_a_tiny_launch_are_not_worth_a_word():
    case = dataclasses.replace(adding_case(rows=64), prediction=predicted(50.0, "latency", dram=0.3, latency=47.0))
    assert found(case, "TF107") != []
    assert found(dataclasses.replace(case, prediction=predicted(3.5, "launch", launch=3.0)), "TF107") == []


def test_a_warp_adds_up_integers_that_go_to_one_address():
    case = adding_case(operation="add", dtype="i32", distinct=1)
    line = line_of(ADD, "tl.atomic_add")
    assert case.compilation is not None
    assert case.compilation.work is not None
    one = dataclasses.replace(case.compilation.work.lines[line], atomic_targets=1.0)
    case = compiled_with(case, work=dataclasses.replace(case.compilation.work, lines={line: one}))
    (finding,) = found(case, "TF107")
    assert finding.evidence["atomic_time"].value == pytest.approx(8192 * 4096 / 32 * 0.6e-3, rel=0.01)


# --- what an autotuner may choose otherwise -------------------------------------------------------------------------


def tuned_case(configs: str, **more: object) -> Case:
    """A matmul whose small tile came from an autotuner."""
    case = matmul_case(32, 32)
    source = matmul(32, 32).replace("@triton.jit", f'@triton.autotune(configs={configs}, key=["N"])\n@triton.jit')
    kernel = kernel_of(source)
    compilation = case.compilation
    assert compilation is not None
    assert compilation.work is not None
    lines = {number + 1: line for number, line in compilation.work.lines.items()}  # below one more decorator
    compilation = dataclasses.replace(compilation, work=dataclasses.replace(compilation.work, lines=lines))
    return dataclasses.replace(case, kernel=kernel, compilation=compilation, **more)  # type: ignore[arg-type]


TILES = '[triton.Config({"BM": 32, "BN": 32, "BK": 32}), triton.Config({"BM": 128, "BN": 128, "BK": 32})]'


@pytest.mark.parametrize("configs", [TILES, "CONFIGS"])
def test_a_tile_that_the_tuner_may_not_choose_is_no_warning(configs: str):
    (finding,) = found(tuned_case(configs), "TF203")
    assert finding.severity == "information"
    assert finding.message.endswith("the autotuner may choose another one.")


@pytest.mark.parametrize(
    ("why", "case"),
    [
        ("there is no tuner", matmul_case(32, 32)),
        ("there is one configuration", tuned_case('[triton.Config({"BM": 32, "BN": 32, "BK": 32})]')),
        ("it ran with it", tuned_case(TILES, time=measured(900.0))),
    ],
)
def test_a_tile_that_is_launched_is_a_warning(why: str, case: Case):
    (finding,) = found(case, "TF203")
    assert finding.severity == "warning", why
    assert "autotuner" not in finding.message
