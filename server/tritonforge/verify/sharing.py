"""Which inputs run together on one lane: shares that take about as long as each other, whatever single inputs take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tritonforge.domain.launch import Call
from tritonforge.verify.inputs import Variation
from tritonforge.verify.replaying import Place

MOST = 24
"""Inputs of one job, whose time is limited."""
FIRST = 2
"""Inputs that run before the others are shared over lanes: most wrong candidates fail on these."""
FEW_LANES = 2
"""With no more lanes than these, whatever runs beside a candidate's inputs holds them up."""
_HEAVY = 4.0
"""Times the median weight: more than that, and an input leads no job."""
_LANES_APART = 7
"""Lanes from which on the GPU's may have been given cores of another."""


def lanes_of(lanes: int, *, on_device: bool) -> int:
    """Return on how many lanes inputs run side by side, where a worker said that it has `lanes`.

    Beside a GPU that measures it has one fewer, and one job more than there are lanes would run after all others.
    """
    return max(1, lanes - 1 if on_device and lanes >= _LANES_APART else lanes)


@dataclass(frozen=True)
class Planned:
    """An input with its place in the check; `candidate_call` is the same input as the candidate takes it.

    `weight`: about how many operations it takes, or anything in proportion; 0 where nothing is known. `made` and
    `complete`: whether its integers were made to fit, and the original writes all where they do, as in `Compare`.
    `turn`: which configuration the candidate's autotuners use on the GPU (`CompareOnDevice.turns`).
    """

    place: Place
    variation: Variation
    candidate_call: Call | None = None
    weight: float = 0.0
    made: bool = False
    complete: bool = False
    turn: int = 0


def shares(planned: Sequence[Planned], lanes: int) -> list[list[Planned]]:
    """Divide inputs into jobs of at most `MOST`, those that take longest first; each job keeps the order of the plan.

    The first light inputs of the plan lead the jobs: what leads one is judged with all evidence, and one of each job is
    run again and again. With one lane, jobs follow each other as the plan does.
    """
    if lanes < 2:
        # Alike, so that none is led by the input that takes longest, which comes last.
        each = -(-len(planned) // max(-(-len(planned) // MOST), 1)) or 1
        return [list(planned[start : start + each]) for start in range(0, len(planned), each)]
    light = [one for one in planned if one.weight <= _HEAVY * median(other.weight for other in planned)]
    jobs = max(min(lanes, len(light)), -(-len(planned) // MOST))
    found = [[one] for one in (light if len(light) >= jobs else planned)[:jobs]]
    weights = [one.weight for (one,) in found]
    leading = {one.place for (one,) in found}
    rest = sorted((one for one in planned if one.place not in leading), key=lambda one: (-one.weight, one.place))
    for one in rest:
        at = min((i for i in range(jobs) if len(found[i]) < MOST), key=lambda i: (weights[i], len(found[i]), i))
        found[at].append(one)
        weights[at] += one.weight
    order = sorted(range(jobs), key=lambda i: (-weights[i], i))
    return [sorted(found[i], key=lambda one: one.place) for i in order]
