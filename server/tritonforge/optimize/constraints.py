"""What the compiler says of a version that makes measuring it a waste."""

from __future__ import annotations

from tritonforge.optimize.search import Attempt

COMPILES, FITS, SPILLS, GATE, RUNS = "compiles", "fits", "spills", "gate", "runs"
"""Names of constraints: does it compile, does a program fit on an SM, does it spill, does it pass the gate, can it be
timed."""

FEW_BYTES = 128
"""Of registers that a thread may spill and still be measured. Of 1,262 configurations that were recorded on an H200 66
spill. Of the 17 that spill less than this the best comes within 8 % of the best of its kernel, half within a third, and
the model is as right about them as about those that spill nothing; so values that are parked outside of a loop may win
elsewhere. The 49 that spill more are 1.4 to 35 times as slow as the best of their kernel."""


def broken(attempt: Attempt, original: Attempt, *, measured: bool) -> tuple[str, str] | None:
    """Return the constraint that a compiled version breaks, and why in a clause; None where it breaks none.

    Spilling in earnest, and more than the original does, is one. The model counts every access to what was spilled, so
    that a few bytes put a version behind those without them; but only a measurement can tell what they cost, and where
    nothing is measured they are too many.
    """
    for one in attempt.assessed:
        occupancy = one.compilation.occupancy
        if occupancy is not None and occupancy.programs_per_sm < 1:
            return FITS, "no program of it fits on a multiprocessor"
    before, after = _spilled(original), _spilled(attempt)
    if after > max(before, FEW_BYTES if measured else 0):
        than = f", the original {before}" if before else ""
        return SPILLS, f"spills {after} bytes of registers a thread{than}: not measured"
    return None


def _spilled(attempt: Attempt) -> int:
    found = (one.compilation.resources.spill_bytes for one in attempt.assessed if one.compilation.resources)
    return max(found, default=0)
