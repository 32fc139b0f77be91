import pytest

from tritonforge.domain.compilation import Prediction
from tritonforge.prediction import disagreement

PREDICTION = Prediction(100.0, (65.0, 200.0), {"dram": 95.0, "launch": 3.0}, "dram", "NVIDIA H200")


@pytest.mark.parametrize("measured", [44.0, 65.0, 100.0, 200.0, 299.0])
def test_a_measurement_in_or_near_the_interval_says_nothing(measured):
    assert disagreement(PREDICTION, measured) is None


def test_one_far_above_it_doubts_the_measurement_or_what_the_model_sees():
    said = disagreement(PREDICTION, 4321.0)
    assert said.startswith("Measured 4,321 µs, where the time model expects at most 200 µs (mostly dram)")


def test_one_far_below_it_doubts_that_the_work_was_done():
    said = disagreement(PREDICTION, 12.0)
    assert said.startswith("Measured 12 µs, where the time model expects at least 65 µs")
    assert "did less" in said


@pytest.mark.parametrize(
    ("prediction", "measured"),
    [(None, 5.0), (PREDICTION, None), (PREDICTION, 0.0), (PREDICTION, float("nan")), (PREDICTION, float("inf"))],
)
def test_nothing_is_said_where_one_of_them_is_missing(prediction, measured):
    assert disagreement(prediction, measured) is None
