"""TF102: one instruction moves few bytes where the addresses allow sixteen."""

from __future__ import annotations

from collections.abc import Iterable

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.counted import stalled
from tritonforge.diagnosis.finding import evidence, line_range, percent
from tritonforge.diagnosis.rules.rule import Observation, Rule
from tritonforge.diagnosis.signals.narrow import NarrowAccess, narrow_access

_THROTTLED = 0.2
"""Share of the stall samples for which the queue of memory instructions is full: too many of them are issued."""


def _look(case: Case) -> Iterable[Observation]:
    seen = narrow_access(case)
    if seen is None:
        return
    waiting = stalled(case, "lg_throttle")
    yield Observation(
        severity="warning" if seen.blocks_copies or waiting >= _THROTTLED else "information",
        range=line_range(case.kernel, seen.access.line),
        message=_message(case, seen),
        provenance="compiled",
        evidence=evidence(
            ("lane_bytes", seen.access.lane_bytes, "bytes", "compiled"),
            ("possible_bytes", seen.possible, "bytes", "derived"),
            ("share_of_bytes", seen.share, "1", "derived"),
            ("masked", "yes" if seen.access.masked else None, "1", "compiled"),
            ("throttled", waiting or None, "1", "measured"),
        ),
    )


def _message(case: Case, seen: NarrowAccess) -> str:
    access = seen.access
    what = f"One instruction of a lane moves {access.lane_bytes} bytes here where the addresses allow {seen.possible}"
    if seen.blocks_copies:
        what += ", too few for an asynchronous copy, so that the dot waits for its operands"
    else:
        what += f"; such accesses move {percent(seen.share)} of the bytes"
    return f"{what}. {_why(case, access.masked)}"


def _why(case: Case, masked: bool | None) -> str:
    strides = [p.name for p in case.kernel.parameters if p.role == "stride" and not p.constexpr]
    if masked:
        return (
            "The mask ends where the compiler cannot tell that 16 bytes end too: pass an extent that 16 divides, or "
            "split off the last block."
        )
    if strides:
        return (
            f"The compiler does not know what divides the run-time strides ({', '.join(strides[:3])}): make them "
            "constexpr, or say so with tl.multiple_of."
        )
    return "Say what the compiler cannot see with tl.multiple_of and tl.max_contiguous."


RULE = Rule("TF102", "narrow-access", "compilation", _look)
