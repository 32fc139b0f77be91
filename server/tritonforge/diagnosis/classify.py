"""The one primary bottleneck of a launch: its cause where that is known, else the resource that is exhausted."""

from __future__ import annotations

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.causes import CAUSES
from tritonforge.diagnosis.resources import exhausted_resource
from tritonforge.domain.finding import Bottleneck


def classify(case: Case) -> Bottleneck:
    """Return the primary bottleneck of the launch that `case` describes.

    The first cause of the ordered table that holds wins; without one the exhausted resource is named; `unknown`, with
    what is missing, when the evidence is short. Works from compilation and prediction, from counters alone, and best
    with both and a measured time.
    """
    if case.counters is None and case.compilation is not None and case.compilation.error is not None:
        return Bottleneck("unknown", 0.0, "compiled", f"It does not compile: {_first_line(case.compilation.error)}")
    for detect in CAUSES:
        found = detect(case)
        if found is not None:
            return found
    return exhausted_resource(case) or Bottleneck("unknown", 0.0, "source", _missing(case))


def _missing(case: Case) -> str:
    lacking = [
        name
        for name, there in (
            ("a known launch", case.launch is not None),
            ("a compilation", case.compilation is not None),
            ("a predicted or measured time", case.time_us is not None),
            ("the ceilings of a GPU", case.gpu is not None),
        )
        if not there
    ]
    return (
        f"The evidence is short of {', '.join(lacking)}." if lacking else "No cause of the catalogue explains its time."
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no message."
