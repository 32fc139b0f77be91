"""Who took the GPU time: names of the driver matched to kernels that were launched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_samples import launch, seen, times

from tritonforge.diagnosis.program_shares import shares_of
from tritonforge.domain.program import GpuTimes, KernelTime
from tritonforge.workload.program_launches import SeenLaunch


def test_triton_kernels_are_ranked_by_device_time_and_the_others_apart():
    shares = shares_of(times(scale=30.0, gemm=60.0, add=10.0), [seen(), seen("add")])
    assert [(one.name, one.time_us) for one in shares.triton] == [("scale", 30.0), ("add", 10.0)]
    assert [(one.name, one.share) for one in shares.other] == [("gemm", 0.6)]
    assert (shares.clock, shares.total_us, shares.triton_us) == ("cupti", 100.0, 40.0)
    assert not shares.missing


def test_two_kernels_of_one_name_are_told_apart_by_their_samples_and_it_is_said():
    first, second = seen(typical_us=3.0), seen(typical_us=1.0, file="other.py")
    shares = shares_of(times(scale=40.0), [second, first])
    assert [(one.seen.file, one.time_us) for one in shares.triton] == [("kernels.py", 30.0), ("other.py", 10.0)]
    assert "one name for 2 kernels" in shares.missing[0]
    assert "sampled" in shares.missing[0]


def test_without_samples_two_kernels_of_one_name_share_by_launches():
    shares = shares_of(times(scale=40.0), [seen(count=30), seen(count=10, file="other.py")])
    assert [one.time_us for one in shares.triton] == [30.0, 10.0]
    assert "how often" in shares.missing[0]


def test_a_name_with_a_suffix_belongs_to_the_kernel_that_it_begins_with():
    shares = shares_of(times(scale_bf16_128x64=5.0, scaler=2.0), [seen()])
    assert [(one.name, one.time_us) for one in shares.triton] == [("scale", 5.0)]
    assert [one.name for one in shares.other] == ["scaler"]


def test_a_mangled_name_is_never_taken_for_a_kernel():
    shares = shares_of(times(_ZN5scale_4coolE=5.0), [replace(seen(), name="_ZN5scale")])
    assert not shares.triton


def test_kernels_that_torch_compile_made_are_triton_s_without_a_source():
    shares = shares_of(times(triton_poi_fused_add_0=5.0, gemm=5.0), [])
    (one,) = shares.triton
    assert one.seen is None
    assert "torch.compile" in one.place


def test_trials_of_an_autotuner_are_told():
    shares = shares_of(GpuTimes({"scale": KernelTime("scale", 500, 40.0)}), [seen(count=10)])
    assert "500 on the device for 10 launches" in shares.missing[0]


def test_a_kernel_that_never_ran_is_told():
    shares = shares_of(times(gemm=5.0), [seen()])
    assert not shares.triton
    assert "scale: launched, but the device ran nothing of that name" in shares.missing[0]


def test_without_cupti_the_samples_times_their_counts_rank_and_the_rest_is_unknown():
    killed = GpuTimes(whole=False, reasons=("a process was killed",), processes=1)
    shares = shares_of(killed, [seen(count=10, typical_us=1.0), seen("add", count=5, typical_us=9.0)])
    assert shares.clock == "sampled"
    assert [(one.name, one.time_us) for one in shares.triton] == [("add", 45.0), ("scale", 10.0)]
    assert not shares.other
    assert any("killed" in sentence for sentence in shares.missing)
    assert any("not Triton's is not known" in sentence for sentence in shares.missing)


def test_launches_without_a_sample_count_like_those_with_one():
    kernel = replace(seen(), launches=(SeenLaunch(launch(), 10, 2.0), SeenLaunch(launch(n=2048), 30)))
    assert kernel.sampled_us == 80.0


def test_where_nothing_ran_on_a_gpu_only_the_model_can_tell_kernels_apart():
    shares = shares_of(GpuTimes(), [seen(), seen("add")])
    assert shares.clock == "predicted"
    assert [one.time_us for one in shares.triton] == [0.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["scale", "add", "scale_1", "gemm", "triton_x", "_Zscale_"]), st.floats(0, 1e12)),
    st.lists(
        st.tuples(st.sampled_from(["scale", "add"]), st.integers(1, 10**9), st.none() | st.floats(0, 1e6)), max_size=4
    ),
)
def test_no_time_is_lost_or_counted_twice(us, kernels):
    shares = shares_of(times(**us), [seen(n, c, t, file=f"{i}.py") for i, (n, c, t) in enumerate(kernels)])
    if shares.clock == "cupti":
        together = shares.triton_us + sum(one.time_us for one in shares.other)
        assert together == pytest.approx(sum(us.values()), rel=1e-9, abs=1e-9)
    assert all(one.time_us >= 0 for one in shares.triton)
