"""What the rules say once a launch is compiled, modelled or measured; numbers are those of an H200 where they are known."""

from __future__ import annotations

import dataclasses

import pytest
from diagnosis_cases import (
    H200,
    N,
    compilation_of,
    copy_case,
    kernel_of,
    launch_of,
    line_of,
    matmul,
    matmul_case,
    measured,
    predicted,
    scalar_case,
    spilling_case,
    sum_case,
    tensor,
)

from tritonforge.diagnosis import Case, diagnose
from tritonforge.domain.compilation import LineInstructions, Occupancy
from tritonforge.domain.finding import Finding


def found(case: Case, code: str) -> list[Finding]:
    return [f for f in diagnose(case.kernel, [case]) if f.code == code]


def test_tile_too_small_warns_with_both_intensities_and_a_gain_from_the_measured_time():
    case = dataclasses.replace(matmul_case(32, 32), time=measured(1181.0))
    (finding,) = found(case, "TF203")
    assert finding.severity == "warning"
    assert finding.launch == "L1"
    assert finding.evidence["intensity"].value == pytest.approx(16)
    needed = finding.evidence["intensity_needed"].value
    assert isinstance(needed, float)
    assert 60 < needed < 120
    assert finding.evidence["time"].provenance == "measured"
    # Bounded by the floor (1,181 ÷ 202 µs) and by how far the intensity is from what is needed; the best tile gained 5.5.
    assert finding.estimated_gain == pytest.approx(needed / 16, rel=0.01)
    assert "NVIDIA H200 needs about" in finding.message


def test_tile_too_small_is_silent_for_a_tile_near_the_ridge():
    assert found(matmul_case(128, 256), "TF203") == []


def test_tile_too_small_is_silent_when_memory_is_the_limit_whatever_the_tile():
    """16 rows against a 4096² matrix: reading it takes longer than any reuse could save."""
    assert found(matmul_case(16, 128, m=16), "TF203") == []


def test_tile_too_small_is_silent_when_the_measured_time_is_near_the_floor():
    assert found(dataclasses.replace(matmul_case(32, 32), time=measured(210.0)), "TF203") == []


def test_tile_too_small_leaves_dots_without_tensor_cores_to_a_graver_rule():
    assert found(matmul_case(32, 32, path="fma"), "TF203") == []


def test_block_too_small_warns_when_starting_programs_takes_longer_than_their_bytes():
    case = dataclasses.replace(copy_case(16), time=measured(2561.0))
    (finding,) = found(case, "TF304")
    assert finding.severity == "warning"
    assert finding.evidence["programs"].value == 4_194_304
    start = finding.evidence["start_time"].value
    assert isinstance(start, float)
    assert start == pytest.approx(2561, rel=0.1)
    assert finding.estimated_gain == pytest.approx(2561 / 125, rel=0.05)


def test_block_too_small_is_silent_for_large_blocks_and_for_small_problems():
    assert found(copy_case(4096, warps=8), "TF304") == []
    assert found(copy_case(16, n=4096), "TF304") == []


def test_block_too_small_is_silent_when_a_measurement_says_that_it_is_fast():
    assert found(dataclasses.replace(copy_case(16), time=measured(140.0)), "TF304") == []


def test_scalar_loop_warns_with_the_compiled_trip_count():
    (finding,) = found(scalar_case(8192), "TF207")
    assert finding.severity == "warning"
    assert finding.provenance == "compiled"
    assert finding.evidence["iterations"].value == 8192
    assert "8,192 times" in finding.message


def test_scalar_loop_is_silent_when_the_launch_goes_round_a_few_times_only():
    assert found(scalar_case(8), "TF207") == []


def test_masked_load_without_other_warns_when_the_launch_turns_lanes_off():
    (finding,) = found(sum_case(1000 / 1024), "TF502")
    assert finding.severity == "warning"
    assert finding.evidence["lanes_off"].value == pytest.approx(24 / 1024, abs=1e-3)


def test_masked_load_without_other_stays_information_when_every_lane_is_on():
    (finding,) = found(sum_case(1.0), "TF502")
    assert finding.severity == "information"


def test_local_memory_traffic_names_bytes_and_the_line_that_spills():
    case = spilling_case(788, 300)
    (finding,) = found(case, "TF106")
    assert finding.severity == "warning"
    assert finding.range.start.line == line_of(matmul(256, 256), "tl.dot(")
    assert finding.evidence["spill_bytes"].value == 788
    assert finding.evidence["lines"].value == str(finding.range.start.line)
    assert "788 bytes per thread" in finding.message


def test_local_memory_traffic_is_only_information_when_it_hardly_moves_anything():
    (finding,) = found(spilling_case(788, 1), "TF106")
    assert finding.severity == "information"


def test_local_memory_traffic_is_silent_without_spills_or_at_the_roofline():
    assert found(spilling_case(0, 0), "TF106") == []
    assert found(dataclasses.replace(spilling_case(788, 300), time=measured(210.0)), "TF106") == []


def test_local_memory_traffic_is_a_hint_when_the_launch_is_fast_nevertheless():
    (finding,) = found(dataclasses.replace(spilling_case(788, 300), time=measured(270.0)), "TF106")
    assert finding.severity == "hint"


def test_local_memory_traffic_ignores_the_table_of_an_argument_reduction():
    source = """
    @triton.jit
    def wave(x, o, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        w = tl.sin(v)
        tl.store(o + i, w, mask=i < n)
    """
    kernel = kernel_of(source)
    launch = launch_of(kernel, (1024,), x=tensor(N), o=tensor(N), n=N, BLOCK=1024)
    mix = {line_of(source, "tl.sin"): LineInstructions({"load_local": 8, "store_local": 8})}
    case = Case(kernel, launch, compilation_of({}, launch, spill=28, instructions=mix), gpu=H200)
    assert found(case, "TF106") == []


LOW = Occupancy(fraction=0.125, programs_per_sm=2, warps_per_sm=8, limiter="registers")


def occupancy_case(low: Occupancy = LOW, *, n: int = N, registers: int = 255, shared: int = 0) -> Case:
    case = copy_case(4096, n=n)
    assert case.compilation is not None
    compilation = compilation_of(
        dict(case.compilation.work.lines) if case.compilation.work else {},
        case.launch,
        occupancy=low,
        registers=registers,
        shared=shared,
    )
    return dataclasses.replace(case, compilation=compilation)


def test_low_occupancy_names_the_limiter_and_what_one_more_program_needs():
    (finding,) = found(occupancy_case(), "TF301")
    assert finding.severity == "information"
    assert finding.evidence["limiter"].value == "registers"
    # 65,536 registers over 3 programs of 4 warps of 32 lanes, in steps of 8.
    assert finding.evidence["registers_for_next_step"].value == 168
    assert "one more program fits at 168 registers" in finding.message


def test_low_occupancy_by_shared_memory_says_how_much_would_do():
    by_shared = Occupancy(fraction=0.125, programs_per_sm=2, warps_per_sm=8, limiter="shared-memory")
    (finding,) = found(occupancy_case(by_shared, registers=32, shared=100_000), "TF301")
    needed = finding.evidence["shared_bytes_for_next_step"].value
    assert isinstance(needed, int)
    assert needed <= 228 * 1024 // 3 - 1024
    assert needed > 70_000


def test_low_occupancy_warns_when_a_measurement_shows_headroom():
    (finding,) = found(dataclasses.replace(occupancy_case(), time=measured(400.0)), "TF301")
    assert finding.severity == "warning"
    assert finding.evidence["roofline_fraction"].provenance == "measured"


def test_low_occupancy_is_silent_where_it_does_not_matter():
    assert found(dataclasses.replace(occupancy_case(), time=measured(150.0)), "TF301") == [], "near the roofline"
    assert found(occupancy_case(dataclasses.replace(LOW, fraction=0.5)), "TF301") == [], "not low"
    assert found(occupancy_case(dataclasses.replace(LOW, limiter="programs")), "TF301") == [], "not a resource"
    assert found(occupancy_case(n=4096 * 200), "TF301") == [], "the grid does not fill the SMs anyway"
    assert found(matmul_case(128, 256, occupancy=LOW, registers=196), "TF301") == [], "wgmma with a big tile"


def test_grid_too_small_warns_about_one_program_with_a_bound_on_the_gain():
    case = dataclasses.replace(copy_case(N), time=measured(40_000.0))
    (finding,) = found(case, "TF302")
    assert finding.severity == "warning"
    assert finding.evidence["programs"].value == 1
    assert finding.estimated_gain == 132
    assert "1 program for 132 SMs" in finding.message


def test_grid_too_small_is_silent_for_full_grids_and_for_launches_that_are_over_at_once():
    assert found(copy_case(4096), "TF302") == []
    tiny = dataclasses.replace(copy_case(1024, n=4096), time=measured(4.5))
    assert found(tiny, "TF302") == []


def test_at_roofline_says_that_there_is_nothing_to_gain():
    (finding,) = found(dataclasses.replace(copy_case(4096), time=measured(136.0)), "TF900")
    assert finding.severity == "information"
    assert finding.provenance == "measured"
    assert finding.evidence["roofline_fraction"].value == pytest.approx(0.92, abs=0.01)
    assert "92 % of the memory roofline" in finding.message


def test_at_roofline_is_a_hint_when_only_a_model_says_so():
    (finding,) = found(dataclasses.replace(copy_case(4096), prediction=predicted(136.0)), "TF900")
    assert finding.severity == "hint"
    assert finding.provenance == "predicted"
    assert finding.message.startswith("Is predicted to run at")


def test_at_roofline_is_silent_below_it_and_without_a_time():
    assert found(dataclasses.replace(copy_case(4096), time=measured(300.0)), "TF900") == []
    assert found(copy_case(4096), "TF900") == []


def test_no_tuning_is_silent_at_the_roofline_and_information_with_measured_headroom():
    assert found(dataclasses.replace(copy_case(4096), time=measured(136.0)), "TF404") == []
    (finding,) = found(dataclasses.replace(copy_case(4096), time=measured(300.0)), "TF404")
    assert finding.severity == "information"
    assert "reaches 42 % of memory bandwidth" in finding.message
