"""When each trial was known: what a chart of trials over time is drawn from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tritonforge.domain.candidate import Candidate
from tritonforge.optimize import search as module
from tritonforge.optimize.search import Attempt, Search


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands at `clock.now` seconds."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


def attempt(title):
    return Attempt(Candidate(title, (), ()), title)


def test_what_was_dropped_for_others_counts_from_when_its_time_was_known(clock):
    search = Search(SimpleNamespace(), SimpleNamespace(measures=False), None, (), 60.0, 0.0, lambda _: None, clock.now)
    search.baseline = attempt("original")
    slower, broken, verified = attempt("slower"), attempt("broken"), attempt("verified")
    clock.now = 103.0
    slower.timed_s = verified.timed_s = search.spent_s
    search.drop(broken, "does not compile")
    clock.now = 130.0
    search.drop(slower, "not faster than the best")
    assert slower.trial.at_s == 3.0
    assert broken.trial.at_s == 3.0
    assert search.trial(verified, reason="").at_s == 30.0, "a verified one counts from its verdict"
    assert search.left_s == 30.0
