"""The classes of the 19 recorded launches with what a report from elsewhere holds: counters, their time, their bytes."""

from __future__ import annotations

import dataclasses

import pytest
from diagnosis_h200 import LABELS, SPEC, counters, levels

from tritonforge.diagnosis import Case, Gpu, classify, diagnose
from tritonforge.diagnosis.reported import roofline_of
from tritonforge.diagnosis.signals.roofline import standing
from tritonforge.domain.profile import TimeDistribution


def reported(name: str) -> Case:
    """As `profile --report` builds it: the time is the profiler's, the roofline counts bytes on the bus."""
    assert SPEC is not None
    counted = counters()[name]
    assert counted.time_us is not None
    bare = levels("3.6.0")[name]["counters"]
    time = TimeDistribution(counted.time_us, (counted.time_us, counted.time_us), 1)
    place = roofline_of(counted, SPEC.ceilings)
    return dataclasses.replace(bare, time=time, roofline=place, gpu=Gpu(SPEC.sms, SPEC.ceilings))


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: reported(name) for name in LABELS}


def test_the_classes_are_right_without_compiling_or_running_anything(cases: dict[str, Case]):
    judged = {name: classify(case) for name, case in cases.items()}
    wrong = {name: found for name, found in judged.items() if found.kind not in LABELS[name]}
    assert len(wrong) <= 3, wrong


def test_a_kernel_that_moves_needless_bytes_at_full_speed_is_not_at_its_roofline(cases: dict[str, Case]):
    softmax, copy = cases["softmax_three_pass"], cases["copy_at_bandwidth"]
    assert softmax.roofline is not None
    assert (softmax.roofline.fraction or 0) > 0.8
    assert standing(softmax) is None
    assert classify(softmax).kind == "redundant-traffic"
    assert {"TF103"} == {f.code for f in diagnose(softmax.kernel, [softmax])}
    assert standing(copy) is not None


def test_a_profilers_short_time_is_only_launch_bound_when_the_kernel_itself_is(cases: dict[str, Case]):
    tiny = cases["launch_bound_tiny"]
    assert classify(tiny).kind == "launch-bound"
    assert tiny.counters is not None
    longer = dataclasses.replace(tiny.counters, time_us=5.0)
    case = dataclasses.replace(tiny, counters=longer, time=TimeDistribution(5.0, (5.0, 5.0), 1))
    assert classify(case).kind != "launch-bound"
