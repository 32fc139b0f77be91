"""What the compiler says of a version that makes measuring it a waste."""

from __future__ import annotations

from tritonforge.optimize.search import Attempt

COMPILES, FITS, SPILLS, GATE, RUNS = "compiles", "fits", "spills", "gate", "runs"
"""Names of constraints: does it compile, does a program fit on an SM, does it spill, does it pass the gate, can it be
timed."""


def broken(attempt: Attempt, original: Attempt) -> tuple[str, str] | None:
    """Return the constraint that a compiled version breaks, and why in a clause; None where it breaks none.

    Spilling more than the original does is one: of 1,262 configurations that were recorded on an H200 66 spill, and
    none of them comes within 8 % of the best of its kernel.
    """
    for one in attempt.assessed:
        occupancy = one.compilation.occupancy
        if occupancy is not None and occupancy.programs_per_sm < 1:
            return FITS, "no program of it fits on a multiprocessor"
    before, after = _spilled(original), _spilled(attempt)
    if after > before:
        than = f", the original {before}" if before else ""
        return SPILLS, f"spills {after} bytes of registers a thread{than}: not measured"
    return None


def _spilled(attempt: Attempt) -> int:
    found = (one.compilation.resources.spill_bytes for one in attempt.assessed if one.compilation.resources)
    return max(found, default=0)
