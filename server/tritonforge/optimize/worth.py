"""What a version must gain: for a round to go on from it, to be judged by the gate, to be offered."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import median
from typing import Protocol

from tritonforge.optimize.search import Attempt, Search
from tritonforge.prediction.model import RELATIVE_LOWEST

STEP_GAIN = 1.02
"""What a version must gain over the best, measured, for the search to go on from it. Several such steps add up; less is
not told from noise."""
LEAST_GAIN = 1.05
"""What is offered must gain in all, measured. On an H200 a version that was 1.04x faster in each of 15 fresh processes
was 7 % slower where it ran between other kernels in another one."""
PREDICTED_GAIN = 1.10
"""A first suggestion must promise this much where nothing is measured: the model does not tell smaller differences
apart."""
REFINED_GAIN = 1.03
"""Later rounds may refine a suggestion in smaller predicted steps."""


class Timed(Protocol):
    """A version with a predicted and, perhaps, a measured time."""

    def time_us(self, *, measured: bool) -> float:
        """Return the time in µs, infinite when it is not known."""


def may_win(attempt: Timed, measured: Sequence[Timed]) -> bool:
    """Tell whether an attempt may still be faster than all that were measured, as far as the model can be trusted.

    One of which nothing is predicted always may.
    The model's error has a part that all versions of one kernel share: the median of measured over predicted times. The
    rest is what `RELATIVE_LOWEST` bounds.
    """
    pairs = [(one.time_us(measured=True), one.time_us(measured=False)) for one in measured]
    known = [(time, predicted) for time, predicted in pairs if math.isfinite(time) and math.isfinite(predicted)]
    expected = attempt.time_us(measured=False)
    if not known or not math.isfinite(expected):
        return True
    shared = median(time / predicted for time, predicted in known)
    return expected * shared * RELATIVE_LOWEST <= min(time for time, _ in known)


def speedup_of(search: Search, attempt: Attempt | None) -> float:
    """Return the original's time over that of `attempt`; 1 for the original itself, 0 where it is not known.

    What was measured beside the original, in the same rounds, comes before times of different rounds: clocks change.
    """
    if attempt is None:
        return 1.0
    if search.measured and attempt.speedup is not None:
        return attempt.speedup[0]
    return search.original.time_us(measured=search.measured) / attempt.time_us(measured=search.measured)


def promises(search: Search, attempt: Attempt, best: Attempt | None) -> bool:
    """Tell whether an attempt is so much faster than `best` (None: the original) that going on from it is worth it."""
    gain = speedup_of(search, attempt) / speedup_of(search, best)
    if search.measured:
        return gain >= STEP_GAIN
    return gain >= (PREDICTED_GAIN if best is None else REFINED_GAIN)


def may_promise(search: Search, attempt: Attempt) -> bool:
    """Tell whether more repetitions may show that a measured attempt is worth going on from, by its interval."""
    if attempt.speedup is None:
        return False
    return attempt.speedup[2] >= STEP_GAIN * speedup_of(search, search.best)


def not_better(search: Search, attempt: Attempt) -> str:
    """Return why a version that was compiled, and measured where that is possible, was not verified."""
    if speedup_of(search, attempt) <= speedup_of(search, search.best):
        return not_faster(search, attempt)
    little = f"too little faster than {_best(search)} to be verified"
    return search.slower_launch(attempt) or f"{little}{_beside(search, attempt)}"


def not_faster(search: Search, attempt: Attempt) -> str:
    """Return, in a clause, that a version is not faster than the best, with what was measured where anything was.

    Times of different rounds do not compare: clocks change. Each speedup is over the original in the same rounds.
    """
    return f"not faster than {_best(search)}{_beside(search, attempt)}"


def _best(search: Search) -> str:
    return "the original" if search.best is None else "the best"


def _beside(search: Search, attempt: Attempt) -> str:
    best = search.best
    if attempt.speedup is None or (best is not None and best.speedup is None):
        return ""
    beside = f": {attempt.speedup[0]:.2f}x beside the original"
    return beside if best is None or best.speedup is None else f"{beside}, the best {best.speedup[0]:.2f}x"


def gains_too_little(search: Search, attempt: Attempt) -> bool:
    """Tell whether a measured version gains less than is offered; if so, that is what becomes of it.

    A later version may be made of it, which the gate then judges by itself.
    """
    speedup = speedup_of(search, attempt)
    if speedup >= LEAST_GAIN:
        return False
    search.gained_too_little = max(search.gained_too_little, speedup)
    verdict = attempt.trial.verdict if attempt.trial is not None else None
    search.drop(attempt, not_offered(speedup), "slower")
    if verdict is not None and attempt.trial is not None:
        attempt.trial = dataclasses.replace(attempt.trial, verdict=verdict)
    return True


def not_offered(speedup: float) -> str:
    """Return, in a clause, that a speedup is less than what is offered; rounded down, so as not to look enough."""
    return f"{math.floor(speedup * 100) / 100:.2f}x; less than {LEAST_GAIN:.2f}x is not offered"
