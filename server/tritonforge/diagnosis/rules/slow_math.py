"""TF204: arithmetic that is slow by the element decides the time."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import metric
from tritonforge.diagnosis.finding import evidence, head_of, number, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.math_units import SlowMath, slow_math
from tritonforge.diagnosis.signals.roofline import is_measured_near_roofline

_ADVICE = {
    "exp": "fold the logarithm's base into a factor that is there anyway and use tl.exp2, and evaluate it less often",
    "sigmoid": "compute it from one tl.exp2 and one division, and reuse it where it is needed again",
    "/": "multiply by a reciprocal that is computed once",
    "//": "carry the quotient along instead of dividing again, or make the divisor a constexpr",
    "%": "carry the remainder along instead of dividing again, or make the divisor a constexpr",
    "sqrt": "take tl.rsqrt where the root is divided by",
    "sin": "reduce its argument once, or take the fast form of libdevice where its precision does",
}


def _look(case: Case) -> Iterable[Observation]:
    seen = slow_math(case)
    if seen is None or is_measured_near_roofline(case):
        return
    yield Observation(
        severity="warning",
        range=head_of(seen.operation.range),
        message=_message(seen),
        provenance=seen.provenance,
        evidence=evidence(
            ("operation", seen.operation.name, "1", "source"),
            ("share_of_time" if seen.what == "units" else "share_of_instructions", seen.share, "1", seen.provenance),
            ("instructions_per_program", seen.per_program, "1", "compiled"),
            ("special_units_busy", metric(case, "xu_active"), "1", "measured"),
            ("time", case.time_us, "µs", case.time_provenance),
        ),
    )


def _message(seen: SlowMath) -> str:
    name = seen.operation.name
    advice = _ADVICE.get(name, "evaluate it less often, or a cheaper form of it")
    if seen.what == "instructions":
        return (
            f"`{name}` becomes many instructions for each element: {percent(seen.share)} of what the launch issues "
            f"is that, and issuing instructions decides its time; {advice}."
        )
    busy = (
        f"keep the special-function units {percent(seen.share)} busy"
        if seen.provenance == "measured"
        else f"are predicted to take {percent(seen.share)} of the time"
    )
    count = f", {number(seen.per_program)} warp instructions per program here" if seen.per_program else ""
    return f"Functions such as `{name}` {busy}, an eighth as fast as additions{count}; {advice}."


RULE = Rule("TF204", "slow-math", "launch", _look)
