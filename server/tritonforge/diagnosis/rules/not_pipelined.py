"""TF206: a loop with dots waits for its own loads in every iteration."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.finding import evidence, line_range, number
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.pipelining import Unpipelined, unpipelined
from tritonforge.domain.finding import Severity

_WAITS = 0.4
_WHY = {
    "stages": "one stage was asked for: ask for two or more (num_stages of the launch or of tl.range)",
    "while": "a `while` loop is never pipelined: count with tl.range",
    "narrow": (
        "an asynchronous copy moves at least 4 bytes of a lane: let the compiler see the alignment of the operands "
        "(TF102), or load a wider type"
    ),
    "unknown": (
        "copies run ahead only of loads whose address does not come out of the same iteration, and whose value goes "
        "into the dot with little in between: load what is needed for the next iteration by hand, or simplify the path"
    ),
}


def _look(case: Case) -> Iterable[Observation]:
    seen = unpipelined(case)
    if seen is None:
        return
    loop = seen.loop
    yield Observation(
        severity=_severity(seen),
        range=line_range(case.kernel, loop.line),
        message=_message(seen),
        provenance="measured" if seen.waiting is not None else "compiled",
        evidence=evidence(
            ("stages_asked", loop.stages_asked, "1", "compiled"),
            ("stages_used", loop.stages_used, "1", "compiled"),
            ("loads", loop.loads, "1", "compiled"),
            ("iterations", loop.trips, "1", "compiled"),
            ("waits_for_memory", seen.waiting, "1", "measured"),
        ),
    )


def _severity(seen: Unpipelined) -> Severity:
    """What was counted decides; without counters only a cause that the launch itself can mend is worth a warning."""
    if seen.waiting is not None:
        return "warning" if seen.waiting >= _WAITS else "hint"
    return "warning" if seen.why in {"stages", "narrow"} and seen.loop.trips is not None else "information"


def _message(seen: Unpipelined) -> str:
    rounds = f" in each of {number(seen.loop.trips)} iterations" if seen.loop.trips is not None else ""
    return f"The dots of this loop wait for {seen.loop.loads} loads{rounds}, and no copy runs ahead: {_WHY[seen.why]}."


RULE = Rule("TF206", "not-pipelined", "compilation", _look, tunable=True)
