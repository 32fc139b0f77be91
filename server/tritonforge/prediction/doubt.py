"""A measurement and a prediction that are far apart: one of them is wrong, and someone should know."""

from __future__ import annotations

import math

from tritonforge.domain.compilation import Prediction

FAR = 1.5
"""How far beyond the interval a measurement must lie. Of configurations of kernels that the model was not fitted to,
fewer than 1 in 100 do (docs/prediction.md), so that what is said is mostly worth looking at."""


def disagreement(prediction: Prediction | None, measured_us: float | None) -> str | None:
    """Return one sentence that says so where a measured time is far outside the predicted interval, else None."""
    if prediction is None or measured_us is None or not 0 < measured_us < math.inf:
        return None
    lowest, highest = prediction.interval
    if measured_us > FAR * highest:
        return (
            f"Measured {_us(measured_us)}, where the time model expects at most {_us(highest)} (mostly "
            f"{prediction.dominant}): something disturbed the measurement, or slows the kernel that the model does not "
            "see."
        )
    if measured_us * FAR < lowest:
        return (
            f"Measured {_us(measured_us)}, where the time model expects at least {_us(lowest)} (mostly "
            f"{prediction.dominant}): the launch did less than its code says, or the model is wrong about it."
        )
    return None


def _us(value: float) -> str:
    return f"{value:.3g} µs" if value < 1000 else f"{value:,.0f} µs"
