"""Which candidates are still worth measuring, given what was measured so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tritonforge.optimize.worth import may_win
from tritonforge.prediction.model import RELATIVE_LOWEST


@dataclass
class Version:
    """Stands for an `Attempt`: its predicted time, and its measured one."""

    predicted: float
    took: float = math.inf

    def time_us(self, *, measured):
        return self.took if measured else self.predicted


ORIGINAL = Version(100.0, 150.0)  # the model is 1.5x too fast on this kernel, on all of its versions


def test_what_is_predicted_to_be_faster_than_the_best_is_measured():
    assert may_win(Version(60.0), [ORIGINAL, Version(70.0, 105.0)])


def test_the_error_that_all_versions_share_does_not_count():
    # 69 µs is less than the 105 µs that were measured, but would be 104 µs with the model's usual error.
    assert may_win(Version(69.0), [ORIGINAL, Version(70.0, 105.0)])
    assert not may_win(Version(95.0), [ORIGINAL, Version(70.0, 105.0)])


def test_what_the_model_may_be_wrong_about_is_still_measured():
    edge = 70.0 / RELATIVE_LOWEST
    assert may_win(Version(0.99 * edge), [ORIGINAL, Version(70.0, 105.0)])
    assert not may_win(Version(1.01 * edge), [ORIGINAL, Version(70.0, 105.0)])


def test_with_nothing_measured_or_predicted_everything_is_worth_a_try():
    assert may_win(Version(500.0), [Version(10.0)])
    assert may_win(Version(500.0), [Version(math.inf, 10.0)])


def test_what_nothing_is_predicted_of_is_not_taken_to_be_slow():
    assert may_win(Version(math.inf), [ORIGINAL, Version(70.0, 105.0)])
