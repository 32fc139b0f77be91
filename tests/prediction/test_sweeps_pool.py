"""Processes of the sweep recorder: jobs that fail, hang and crash cost themselves only."""

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from sweeps.pool import Pool


def work(job, say):
    say(f"at {job}")
    if job == "raise":
        raise ValueError("no such block")
    if job == "crash":
        os._exit(3)
    if job == "hang":
        time.sleep(60)
    return job, os.getpid()


@pytest.fixture
def pool():
    made = Pool(work, 2, seconds=1.0)
    yield made
    made.close()


def soon():
    return time.monotonic() + 20


def test_each_job_ends_once_and_the_bad_ones_say_why(pool):
    jobs = ["a", "raise", "crash", "hang", "b", "c"]
    ended = {one.job: one for one in pool.run(jobs, soon())}
    assert sorted(ended) == sorted(jobs)
    assert [ended[name].result[0] for name in "abc"] == ["a", "b", "c"]
    assert ended["raise"].error == "ValueError: no such block"
    assert "ended with 3" in ended["crash"].error
    assert ended["hang"].error == "took more than 1 s"
    assert ended["hang"].last == "at hang"


def test_an_error_ends_its_process_where_it_may_have_poisoned_it():
    pool = Pool(work, 1, seconds=5.0)
    try:
        first, bad, second = (next(pool.run([job], soon(), fresh_after_error=True)) for job in ("a", "raise", "b"))
    finally:
        pool.close()
    assert bad.error
    assert first.result[1] != second.result[1]


def test_nothing_is_begun_past_the_end(pool):
    began = time.monotonic()
    ended = list(pool.run(["hang", "hang", "a"], began + 0.3))
    assert [one.job for one in ended] == ["hang", "hang"]
    assert {one.error for one in ended} == {"out of time"}
    assert time.monotonic() - began < 5


def test_closing_leaves_no_process_behind(pool):
    (ended,) = pool.run(["a"], soon())
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(ended.result[1], 0)
