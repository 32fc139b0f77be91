"""Which job starts next: plain values, no processes."""

from tritonforge.domain.frames import Frame
from tritonforge.worker.schedule import Job, in_turn, startable

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
