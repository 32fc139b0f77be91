"""Which differences count: Student's interval over runs, its known quantiles, and what it says of recorded H200 runs."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from regression_fakes import runs

from tritonforge.regression.noise import compare, compare_pairs, student

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("level", "freedom", "value"), [(0.95, 10, 2.228), (0.99, 5, 4.032), (0.99, 10, 3.169), (0.95, 30, 2.042)]
)
def test_students_quantiles_are_those_of_the_tables(level, freedom, value):
    assert student(level, freedom) == pytest.approx(value, rel=0.01)


def test_equal_runs_are_the_same_and_the_interval_is_never_narrower_than_placement_and_clock():
    ratio = compare(runs(100, 100, 100, 100, 100), runs(100, 100, 100))
    assert ratio.value == pytest.approx(1.0)
    assert ratio.change() == "same"
    assert ratio.ci95[0] < 1 / 1.005
    assert ratio.ci95[1] > 1.005
    assert not ratio.suspect()


def test_five_per_cent_over_quiet_runs_is_slower_and_two_is_not_worth_a_word():
    before = runs(100.0, 100.2, 99.9, 100.1, 100.0)
    assert compare(before, runs(105.0, 105.2, 105.1)).change() == "slower"
    assert compare(before, runs(102.0, 102.1, 102.0)).change() == "same"
    assert compare(before, runs(102.0, 102.1, 102.0)).change(0.01) == "slower"
    assert compare(before, runs(95.0, 95.1, 95.0)).change() == "faster"


def test_runs_that_differ_much_hide_five_per_cent_and_say_so():
    before, after = runs(100, 104, 97, 103, 98), runs(105, 101, 109)
    ratio = compare(before, after)
    assert ratio.change() == "same"
    assert ratio.smallest > 1.05


def test_a_launch_of_a_microsecond_is_not_told_from_one_that_is_a_clock_tick_slower():
    ratio = compare(runs(1.19, 1.19, 1.19, 1.19, 1.19), runs(1.25, 1.25, 1.25))
    assert ratio.change() == "same"
    assert ratio.smallest > 1.05


def test_what_disturbs_both_of_a_pair_cancels():
    before, after = runs(100, 110, 120), runs(105, 115.5, 126)
    assert compare(before, after).change() == "same"
    pair = compare_pairs(before, after)
    assert pair.change() == "slower"
    assert pair.value == pytest.approx(1.05)


@pytest.mark.parametrize(("before", "after"), [(runs(1.0), runs()), (runs(0.0), runs(1.0)), (runs(), runs())])
def test_times_that_are_none_are_refused(before, after):
    with pytest.raises(ValueError, match="above 0"):
        compare(before, after)


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="as many"):
        compare_pairs(runs(1.0, 1.0), runs(1.0))


@pytest.mark.parametrize("file", ["2026-11-29-h200-timing-aa.json", "2026-11-29-h200-timing.json"])
def test_the_range_of_recorded_h200_medians_is_within_the_noise_that_is_assumed(file):
    """Each row: 40 (24) medians of one kernel, of five processes, as (smallest, largest) at the extremes of that spread."""
    rows = [r for r in json.loads((RESULTS / file).read_text())["aa"] if r["clock"] == "cupti" and not r["noisy"]]
    assert len(rows) == 8
    for row in rows:
        if row["spread"] > 0.5:  # the atomics' first call, before the GPU had settled
            continue
        middle = row["median_us"]
        low, high = middle, middle * (1 + row["spread"])
        # Even if all runs of the baseline sat at one end of the range and all of the check at the other:
        ratio = compare(runs(*[low] * 5), runs(*[high] * 3))
        slower = ratio.change() == "slower"
        assert not slower or row["spread"] > 0.03, row["kernel"]


def test_simulated_false_alarms_and_misses_are_rare():
    """A simulation: run medians are log-normal with the recorded deviation, sessions differ by 0.4 % each."""
    generator = random.Random(5)

    def session(time, count):
        own = generator.gauss(0, 0.004)
        return runs(*(time * math.exp(own + generator.gauss(0, 0.0025)) for _ in range(count)))

    alarms = sum(compare(session(30, 5), session(30, 3)).change() != "same" for _ in range(2000))
    found = sum(compare(session(30, 5), session(31.5, 3)).change() == "slower" for _ in range(1000))
    assert alarms <= 2000 // 200
    assert found >= 950
