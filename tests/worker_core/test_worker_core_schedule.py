"""Which job starts next: plain values, no processes."""

import dataclasses

import pytest

from tritonforge.domain.frames import Frame
from tritonforge.worker.cores import divided, keep_to_gpu
from tritonforge.worker.schedule import Job, in_turn, read_job, startable

ALL = ("compile", "interpret", "device")


def jobs(*lanes, priority=0):
    return [Job(i, "J", lane, 1, 1, Frame({}), priority, i) for i, lane in enumerate(lanes)]


def ids(chosen):
    return [job.id for job in chosen]


def test_as_many_start_as_there_are_lanes_of_their_kind():
    waiting = jobs("compile", "compile", "compile", "interpret", "interpret", "interpret")
    assert ids(startable(waiting, {"compile": 1}, 2, ALL)) == [0, 3, 4]


def test_a_full_kind_does_not_hold_up_another():
    assert ids(startable(jobs("compile", "interpret"), {"compile": 2}, 2, ALL)) == [1]


def test_a_device_job_waits_for_all_that_runs_and_holds_up_all_behind_it():
    waiting = jobs("device", "compile", "interpret")
    assert startable(waiting, {"interpret": 1}, 4, ALL) == ()
    assert ids(startable(waiting, {}, 4, ALL)) == [0]
    assert startable(waiting[1:], {"device": 1}, 4, ALL) == ()


def test_a_device_job_does_not_pass_those_before_it():
    assert ids(startable(jobs("compile", "device", "compile"), {}, 4, ALL)) == [0]


def test_nothing_starts_before_its_zygote_is_ready():
    assert ids(startable(jobs("compile", "interpret"), {}, 4, ("interpret",))) == [1]
    assert startable(jobs("device"), {}, 4, ("interpret",)) == ()


def test_priority_goes_before_arrival():
    first, second, third = jobs("compile", "compile", "compile")
    urgent = Job(9, "J", "compile", 1, 1, Frame({}), -1, 9)
    assert ids(in_turn([third, first, urgent, second])) == [9, 0, 1, 2]


def on_gpu(number, gpus=2):
    return Job(10 + number, "J", "device", 1, 1, Frame({}), 0, 10 + number, number, gpus)


def test_each_gpu_does_one_job_and_both_at_once():
    waiting = [on_gpu(0), on_gpu(1)]
    assert ids(startable(waiting, {}, 4, ALL)) == [10, 11]
    assert ids(startable(waiting, {"device": 1}, 4, ALL, busy={0})) == []
    assert ids(startable([on_gpu(1), on_gpu(0)], {"device": 1}, 4, ALL, busy={0})) == [11]
    assert ids(startable([on_gpu(0), on_gpu(0)], {}, 4, ALL, apart=True)) == [10]


def test_without_cores_of_their_own_compiling_and_measuring_take_turns():
    assert ids(startable([on_gpu(0), *jobs("compile")], {}, 4, ALL)) == [10]
    assert ids(startable([*jobs("compile"), on_gpu(1)], {"device": 1}, 4, ALL, busy={0})) == []
    assert ids(startable([on_gpu(1)], {"compile": 1, "device": 1}, 4, ALL, busy={0})) == []


def test_with_cores_of_their_own_a_gpu_that_is_busy_holds_nothing_up():
    waiting = [on_gpu(0), *jobs("compile", "interpret"), on_gpu(1)]
    running = {"device": 1, "compile": 1}
    assert ids(startable(waiting, running, 4, ALL, busy={0}, apart=True)) == [0, 1, 11]


def comparing(number=0, gpus=1):
    return dataclasses.replace(on_gpu(number, gpus), gpu=number if gpus > 1 else None, measures=False)


def test_a_device_job_that_measures_nothing_runs_beside_what_compiles_and_holds_nothing_up():
    waiting = [comparing(), *jobs("compile", "interpret")]
    assert ids(startable(waiting, {"interpret": 1}, 4, ALL)) == [10, 0, 1]
    running = {"device": 1, "interpret": 1}
    assert ids(startable(jobs("compile"), running, 4, ALL, busy={None}, comparing={None})) == [0]
    assert ids(startable(waiting, running, 4, ALL, busy={None}, comparing={None})) == [0, 1], "its GPU is busy"


def test_a_measurement_waits_for_what_measures_nothing_and_is_not_overtaken():
    running = {"device": 1}
    assert startable(jobs("device", "compile"), running, 4, ALL, busy={None}, comparing={None}) == ()
    assert ids(startable([comparing(), *jobs("device", "compile")], {}, 4, ALL)) == [10]
    assert ids(startable([*jobs("device"), comparing(), *jobs("compile")], {}, 4, ALL)) == [0]


def test_what_measures_nothing_disturbs_no_measurement_on_another_gpu():
    assert startable([comparing(1, 2)], {"device": 1}, 4, ALL, busy={0}) == ()
    assert startable([on_gpu(1)], {"device": 1}, 4, ALL, busy={0}, comparing={0}) == ()
    assert ids(startable([comparing(1, 2)], {"device": 1}, 4, ALL, busy={0}, comparing={0})) == [11]
    assert ids(startable([comparing(1, 2)], {"device": 1}, 4, ALL, busy={0}, apart=True)) == [11]


def test_comparing_measures_nothing_and_timing_does():
    header = {"id": 1, "seconds": 1, "memory_bytes": 1}
    kinds = ("Time", "TimeBeside", "TimeFresh", "MeasureCeilings", "CompareOnDevice", "LookAtGpu")
    found = [read_job(Frame({**header, "job": kind}), 0).measures for kind in kinds]
    assert found == [True] * 4 + [False] * 2


@pytest.mark.parametrize(
    ("said", "understood"),
    [([1, 2], (1, 2)), (None, (None, 1)), ([2, 2], (None, 1)), ([-1, 2], (None, 1)), ("all", (None, 1))],
)
def test_a_gpu_that_makes_no_sense_is_the_first(said, understood):
    header = {"id": 1, "job": "MeasureCeilings", "seconds": 1, "memory_bytes": 1, "gpu": said}
    job = read_job(Frame(header), 0)
    assert (job.gpu, job.gpus) == understood
    assert read_job(Frame({**header, "job": "Compile"}), 0).gpu is None


def test_cores_are_divided_only_where_half_are_left_for_compiling():
    own, rest = divided(range(8), 2)
    assert own == ({4, 5}, {6, 7})
    assert rest == {0, 1, 2, 3}
    assert divided(range(7), 2) is None
    own, rest = divided(range(8), 1)
    assert (own, rest) == ((frozenset({6, 7}),), frozenset(range(6)))
    assert divided(range(7), 1) is None, "with few cores one GPU is measured on while nothing else runs"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"CUDA_VISIBLE_DEVICES": "1"}),
        ({"CUDA_VISIBLE_DEVICES": "5, 7"}, {"CUDA_VISIBLE_DEVICES": "7"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ({"HIP_VISIBLE_DEVICES": "2,3"}, {"HIP_VISIBLE_DEVICES": "3"}),
    ],
)
def test_a_lane_sees_its_gpu_alone_among_those_that_the_user_allows(before, after):
    keep_to_gpu(1, before)
    assert before == after
