import time
from dataclasses import replace
from statistics import median

import pytest
from compilation_golden import artefacts, compilations, measured

from tritonforge.domain.compilation import Compilation
from tritonforge.domain.profile import Ceilings
from tritonforge.prediction import footprint_of, gpu_for, predict, unique_bytes

H200 = gpu_for("sm_90")
EXPECTED_DOMINANT = {
    "copy_at_bandwidth": "dram",
    "copy_tiny_block": "latency",
    "copy_strided": "dram",
    "row_sum_scalar_loop": "alu",  # each warp loads each element: the load-store unit is full
    "softmax_three_pass": "dram",
    "matmul_spilling": "spill",
    "matmul_good": "tensor",
    "matmul_ieee_fp32": "alu",
    "matmul_skinny_low_parallelism": "latency",
    "histogram_atomic": "atomic",
    "column_sum_atomic": "atomic",
    "embedding_gather": "dram",
    "launch_bound_tiny": "launch",
    "vector_dot_one_program": "latency",
}


def predictions(golden):
    return {
        name: predict(facts, footprint_of(artefacts(golden)[name].launch), H200)
        for name, facts in compilations(golden).items()
    }


def ranks(values):
    order = sorted(values)
    return [order.index(value) for value in values]


def spearman(a, b):
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b), strict=True)) / (n * (n * n - 1))


@pytest.mark.parametrize("golden", ["pathologies-3.6.0", "pathologies-3.7.1"])
def test_predictions_order_the_launches_as_an_h200_does(golden):
    found = predictions(golden)
    names = sorted(found)
    assert len(names) == 19
    assert spearman([found[n].time_us for n in names], [measured()[n]["median_ms"] for n in names]) >= 0.95


@pytest.mark.parametrize("golden", ["pathologies-3.6.0", "pathologies-3.7.1"])
def test_the_median_error_of_launches_that_nothing_was_fitted_to_is_small_and_none_leaves_its_interval(golden):
    found = predictions(golden)
    ratios = {name: p.time_us / (measured()[name]["median_ms"] * 1e3) for name, p in found.items()}
    assert median(abs(ratio - 1) for ratio in ratios.values()) < 0.15
    for name, p in found.items():
        assert p.interval[0] <= measured()[name]["median_ms"] * 1e3 <= p.interval[1], (name, ratios[name])


@pytest.mark.parametrize(("name", "part"), sorted(EXPECTED_DOMINANT.items()))
def test_the_dominant_part_is_what_the_launch_was_built_to_be_slow_at(name, part):
    assert predictions("pathologies-3.6.0")[name].dominant == part


def test_matmul_tiles_are_ranked_as_known():
    found = {name: p.time_us for name, p in predictions("ranking-3.7.1").items() if name.startswith("matmul")}
    tiny, small = found["matmul_32x32x32_w4_s2"], found["matmul_64x64x32_w4_s2"]
    middle, large = found["matmul_128x128x64_w4_s3"], found["matmul_128x256x64_w8_s4"]
    assert tiny > 2 * small
    assert small > 1.3 * middle
    assert middle >= 0.98 * large
    assert found["matmul_256x256x64_w4_s2"] > 3 * large
    # 334 and 672 TFLOP/s were measured for these two at 4096³.
    assert 2 * 4096**3 / small / 1e6 == pytest.approx(334, rel=0.25)
    assert 2 * 4096**3 / large / 1e6 == pytest.approx(672, rel=0.15)


def test_copies_get_no_better_once_blocks_are_large_and_much_worse_when_tiny():
    found = {name: p.time_us for name, p in predictions("ranking-3.7.1").items()}
    assert found["copy_16_w4"] > 3 * found["copy_64_w4"] > 9 * found["copy_1024_w4"]
    assert found["copy_1024_w4"] == pytest.approx(found["copy_8192_w8"], rel=0.05)


def test_one_warp_on_narrow_blocks_is_slower_than_many_on_wide_ones():
    found = {name: p.time_us for name, p in predictions("ranking-3.7.1").items()}
    assert found["softmax_128_w1"] > found["softmax_1024_w4"]
    assert found["softmax_128_w1"] > found["softmax_1024_w8"]


def test_more_memory_bandwidth_helps_a_copy_and_not_an_atomic():
    h100 = gpu_for("sm_90", "NVIDIA H100")
    facts = compilations("pathologies-3.6.0")
    times = {
        name: [predict(facts[name], 1 << 29, gpu).time_us for gpu in (H200, h100)]
        for name in ("copy_at_bandwidth", "histogram_atomic")
    }
    assert times["copy_at_bandwidth"][1] > 1.3 * times["copy_at_bandwidth"][0]
    assert times["histogram_atomic"][1] == pytest.approx(times["histogram_atomic"][0], rel=0.01)


def test_measured_ceilings_replace_published_ones():
    facts = compilations("pathologies-3.6.0")["copy_at_bandwidth"]
    slow = Ceilings("NVIDIA H200", 2000, {"fp16": 700}, 10.0)
    found = predict(facts, 1 << 29, H200, slow)
    assert found.parts["launch"] == 10.0
    assert found.parts["dram"] == pytest.approx((1 << 29) / 2000e3)


def test_a_guessed_trip_count_widens_the_interval():
    facts = compilations("samples-3.7.1")
    sure, guessed = (predict(facts[name], None, H200) for name in ("early_return", "branches"))
    assert guessed.interval[1] / guessed.time_us > sure.interval[1] / sure.time_us


def test_nothing_is_predicted_where_nothing_is_known():
    facts = compilations("pathologies-3.6.0")["copy_at_bandwidth"]
    assert predict(replace(facts, error="ptxas gave up"), None, H200) is None
    assert predict(Compilation("l", "k", "sm_90", "3.7.1"), None, H200) is None


def test_without_a_disassembly_a_prediction_is_wider():
    facts = compilations("pathologies-3.6.0")["softmax_three_pass"]
    whole, bare = predict(facts, 1 << 29, H200), predict(replace(facts, instructions={}), 1 << 29, H200)
    assert bare.time_us == pytest.approx(whole.time_us, rel=0.2)
    assert bare.interval[0] < whole.interval[0]


def test_a_prediction_takes_less_than_five_milliseconds():
    facts = compilations("pathologies-3.6.0")["matmul_spilling"]
    started = time.perf_counter()
    for _ in range(20):
        predict(facts, 1 << 27, H200)
    assert (time.perf_counter() - started) / 20 < 5e-3


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_every_sample_has_a_finite_prediction(arch):
    golden = "samples-3.7.1" if arch == "sm_90" else f"samples-3.7.1-{arch}"
    for name, facts in compilations(golden).items():
        found = predict(facts, unique_bytes(artefacts(golden)[name].launch), gpu_for(arch))
        assert 0 < found.interval[0] < found.time_us < found.interval[1] < 1e6, name
        assert found.dominant in found.parts
