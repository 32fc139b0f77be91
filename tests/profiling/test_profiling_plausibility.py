"""A result above the physical ceiling is refused as a measurement error, and nothing that can be true is."""

from __future__ import annotations

import pytest

from tritonforge.domain.profile import Ceilings
from tritonforge.profiling.plausibility import refusal

MEASURED = Ceilings("NVIDIA H200", 4300.0, {"fp16": 718.0, "fp32": 51.0}, 2.0, read_gbps=4400.0)
PUBLIC = Ceilings("NVIDIA H200", 4800.0, {"fp16": 989.0, "fp32": 67.0}, 3.0, provenance="public")
L2 = 60e6


def judged(time_us, *, useful_bytes=0.0, flops=0.0, dtype=None, ceilings=(MEASURED, PUBLIC), l2_bytes=L2):
    return refusal(time_us, useful_bytes=useful_bytes, flops=flops, dtype=dtype, ceilings=ceilings, l2_bytes=l2_bytes)


def test_a_gigabyte_in_a_tenth_of_the_time_is_refused_with_the_rate_that_it_would_be():
    said = judged(25.0, useful_bytes=1e9)
    assert said is not None
    assert said.startswith("measurement refused: 25 us for 1000 MB")
    assert "40000 GB/s" in said


def test_a_copy_at_full_speed_is_believed():
    assert judged(1e9 / 4300e3, useful_bytes=1e9) is None
    assert judged(1e9 / 4800e3, useful_bytes=1e9) is None


def test_what_fits_l2_may_have_stayed_there():
    assert judged(5.0, useful_bytes=50e6) is None
    assert judged(5.0, useful_bytes=50e6, l2_bytes=0.0) is not None


def test_more_flops_than_the_units_have_are_refused_and_more_than_a_librarys_are_not():
    flops = 2 * 4096**3
    assert judged(flops / 900e6, flops=flops, dtype="fp16") is None
    said = judged(flops / 1100e6, flops=flops, dtype="fp16")
    assert said is not None
    assert "fp16 (989)" in said


@pytest.mark.parametrize("dtype", [None, "fp4"])
def test_flops_of_a_type_whose_ceiling_is_not_known_prove_nothing(dtype):
    assert judged(1.0, flops=1e15, dtype=dtype) is None


def test_without_ceilings_or_a_time_nothing_is_refused():
    assert judged(1.0, useful_bytes=1e12, ceilings=()) is None
    assert judged(0.0, useful_bytes=1e12) is None


def test_a_bandwidth_measured_by_reading_alone_counts_too():
    fast_reads = Ceilings("x", 1000.0, {}, 2.0, read_gbps=2000.0)
    assert judged(1000.0, useful_bytes=1.9e9, ceilings=(fast_reads,)) is None
    assert judged(1000.0, useful_bytes=2.3e9, ceilings=(fast_reads,)) is not None
