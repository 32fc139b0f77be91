"""Measured times of real launches are believed; what would beat the hardware is refused."""

from __future__ import annotations

import dataclasses
import types

from diagnosis_h200 import MEASURED, SPEC, cases

from tritonforge.diagnosis.assessment import Yardstick
from tritonforge.diagnosis.plausible import refused

JUDGE = Yardstick(SPEC, MEASURED)


def judged(case, share=1.0, judge=JUDGE):
    time = dataclasses.replace(case.time, median=case.time.median * share)
    assessed = types.SimpleNamespace(compilation=case.compilation, case=case, launch=case.launch)
    return refused(assessed, time, judge)


def measured():
    return dict(cases("3.6.0", measured=True))


def test_none_of_nineteen_measured_times_is_refused():
    assert {name: why for name, case in measured().items() if (why := judged(case))} == {}


def test_times_that_beat_the_memory_or_the_tensor_cores_are_refused():
    launches = measured()
    assert "GB/s" in (judged(launches["copy_at_bandwidth"], 0.1) or "")
    assert "TFLOP/s" in (judged(launches["matmul_good"], 0.5) or "")


def test_bytes_behind_an_index_prove_nothing():
    assert judged(measured()["embedding_gather"], 0.02) is None


def test_without_a_known_gpu_nothing_is_refused():
    assert judged(measured()["copy_at_bandwidth"], 0.001, judge=None) is None
