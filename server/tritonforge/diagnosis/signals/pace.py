"""What sets the pace of a launch: shared by rules that only speak where their resource decides."""

from __future__ import annotations

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import busiest
from tritonforge.diagnosis.signals.launching import launch_bound
from tritonforge.diagnosis.signals.roofline import NEAR_ROOFLINE, is_at_roofline, is_measured_near_roofline
from tritonforge.domain.compilation import Prediction

_EXHAUSTED = 0.6
_NEARLY = 0.8


def has_headroom(case: Case) -> bool:
    """Tell whether there is something to gain: neither near a ceiling, by measurement or model, nor a tiny launch."""
    if is_measured_near_roofline(case) or launch_bound(case) is not None:
        return False
    return case.time is not None or not is_at_roofline(case, NEAR_ROOFLINE)


def pace(case: Case) -> str | None:
    """Return the part that decides the time, as the time model names parts; None when nothing is known.

    What was counted decides: a unit at its peak, else `latency`. Without counters the part that dominates the model.
    """
    top = busiest(case)
    if top is not None:
        return {"fp32": "alu", "issue": "alu"}.get(top[0], top[0]) if top[1] >= _EXHAUSTED else "latency"
    return modelled_pace(case.prediction) if case.prediction is not None else None


def modelled_pace(prediction: Prediction) -> str:
    """Return the part that decides a predicted time.

    What a program spends alone on its SM contains its own work on the units: where one of them is nearly as busy as
    that takes, it is the unit that is full, and not the program that waits.
    """
    if prediction.dominant != "latency":
        return prediction.dominant
    units = {name: us for name, us in prediction.parts.items() if name not in {"latency", "launch"}}
    busiest_unit = max(units, key=lambda name: units[name], default="latency")
    nearly = units.get(busiest_unit, 0.0) >= _NEARLY * prediction.parts.get("latency", 0.0)
    return busiest_unit if nearly else "latency"
