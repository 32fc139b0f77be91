"""Telling of functions that begin and end, by whatever this Python has for it."""

from __future__ import annotations

import sys

import pytest

from tritonforge.worker.tracing.host_watching import watching


def outer(then):
    return inner(then)


def inner(then):
    if then == "raise":
        raise ValueError
    return None if then == "nothing" else 1


class Notebook:
    """Notes what it is told of the functions above."""

    def __init__(self):
        self.watched = {}
        self.told = []
        self.failed = []
        self.asked = 0

    def left_alone(self, code):
        self.asked += 1
        return code not in {outer.__code__, inner.__code__}

    def entered(self, frame):
        self.watched[id(frame)] = frame.f_code.co_name
        self.told.append(f"{frame.f_code.co_name} {frame.f_locals['then']}")

    def left(self, frame, *, raised):
        name = self.watched.pop(id(frame), None)
        if name is not None:
            self.told.append(f"{name} {'raised' if raised else 'ended'}")

    def fail(self, error):
        self.failed.append(error)


@pytest.fixture
def notebook():
    if sys.getprofile() is not None:
        pytest.skip("something else profiles this process")
    told = Notebook()
    told.by = watching(told, share=1.0)
    told.by.arm()
    yield told
    told.by.stop()
    if hasattr(told.by, "_tool"):
        sys.monitoring.free_tool_id(told.by._tool)


def test_beginnings_and_ends_are_told_in_order(notebook):
    outer("one")
    outer("nothing")
    notebook.by.stop()
    assert notebook.told == [
        "outer one", "inner one", "inner ended", "outer ended",
        "outer nothing", "inner nothing", "inner ended", "outer ended",
    ]  # fmt: skip
    assert not notebook.watched


def test_an_end_by_an_exception_is_told_as_such(notebook):
    with pytest.raises(ValueError, match=r"^$"):
        outer("raise")
    notebook.by.stop()
    assert notebook.told == ["outer raise", "inner raise", "inner raised", "outer raised"]


def test_nothing_is_told_once_it_has_stopped(notebook):
    notebook.by.stop()
    notebook.told.clear()
    outer("one")
    assert notebook.told == []
    assert sys.getprofile() is None


def test_what_has_stopped_tells_again_once_it_is_armed(notebook):
    outer("one")
    notebook.by.stop()
    notebook.told.clear()
    notebook.by.arm()
    outer("one")
    notebook.by.stop()
    assert notebook.told == ["outer one", "inner one", "inner ended", "outer ended"]


def test_a_failure_of_who_is_told_does_not_reach_the_program(notebook):
    def entered(frame):
        raise KeyError(frame.f_code.co_name)

    notebook.entered = entered
    assert outer("one") == 1
    notebook.by.stop()
    assert [error.args for error in notebook.failed] == [("outer",), ("inner",)]
