"""Whether a comparison is fair: work beside the kernel counts, no launch pays for another, two processes agree."""

from __future__ import annotations

import dataclasses
from statistics import median

from tritonforge.optimize.search import Attempt
from tritonforge.profiling.measuring import Samples
from tritonforge.profiling.statistics import PLACEMENT, ratio_interval, summarise

_LEAST_US = 1.0
"""What whole calls must differ by, beside their launches, to count: gaps between launches vary by as much."""

Measured = tuple[float, float, float]
"""A speedup and its 95 % interval."""


def charged(before: Samples, after: Samples) -> tuple[Samples, str]:
    """Return the samples of a version with what its host code adds on the GPU beside the kernel, and a sentence on it.

    Copies, sums of partial results and other kernels are no launches of the kernel, so that they show in the time of
    whole calls alone. What a version adds is what its calls take longer by, less what its launches do. It stands under
    the first launch of the call. Work that a version saves is not credited.
    """
    if not before.whole or not after.whole or not after.by_launch:
        return after, ""
    rows = zip(before.whole, after.whole, strict=False)
    longer = summarise([late - early for early, late in rows])
    launches = median(after.total()) - median(before.total())
    more, surely = longer.median - launches, longer.ci95[0] - launches
    if surely <= _LEAST_US + PLACEMENT * median(before.whole):
        return after, ""
    first = next(iter(after.by_launch))
    each = more / max(1, after.counts.get(first, 1))
    times = {**after.by_launch, first: tuple(sample + each for sample in after.by_launch[first])}
    said = f"its host code has the GPU do {more:.3g} us of other work, which is in its time"
    return dataclasses.replace(after, by_launch=times), said


def unfair(before: Samples, after: Samples, allow_slower: float) -> str:
    """Return which launch is surely slower than allowed, in a clause; empty where none is.

    `allow_slower`: the fraction by which a launch may be slower, beyond what its interval leaves open.
    """
    for launch, row in before.by_launch.items():
        if launch not in after.by_launch:
            continue
        ratio, (_, high) = ratio_interval(row, after.by_launch[launch])
        if high * (1.0 + allow_slower) < 1.0:
            return f"measured {1 / ratio:.2f}x slower on launch {launch} (allowed: {1.0 + allow_slower:.2f}x)"
    return ""


def seems_unfair(attempt: Attempt, allow_slower: float) -> str:
    """Return the same of what was measured of a version the last time; empty where nothing was, in this run."""
    if attempt.before is None or attempt.samples is None:
        return ""
    return unfair(attempt.before, attempt.samples, allow_slower)


def disagreeing(title: str, earlier: Measured | None, now: Measured) -> tuple[str, ...]:
    """Return a sentence where a speedup measured in another process lies outside of what this one says, else none."""
    if earlier is None or (earlier[1] <= now[2] and now[1] <= earlier[2]):
        return ()
    return (
        f"{title}: {earlier[0]:.2f}x in the process that searched, {now[0]:.2f}x in a fresh one; the latter is shown.",
    )
