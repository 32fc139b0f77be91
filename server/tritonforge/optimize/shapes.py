"""Different winners for different launches: all of their values in one source, so that each launch gets its own.

An autotuner's list where the kernel can have one whose key tells the launches apart, else a table by size in the host
code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tritonforge.domain.candidate import Candidate
from tritonforge.domain.source import apply_edits
from tritonforge.optimize.across_sources import autotune_list, values_of
from tritonforge.optimize.search import SEEN_SLOWER, Attempt, Search
from tritonforge.optimize.steps import compile_all, recall
from tritonforge.optimize.tasks import attempt_of
from tritonforge.profiling.measuring import Samples
from tritonforge.rewrite import Refusal, edits_between
from tritonforge.rewrite.rules.autotune_key import wider_key
from tritonforge.rewrite.rules.autotuned import told_apart, tuned_by
from tritonforge.rewrite.rules.shape_table import shape_table

_WORTH = 1.0 + SEEN_SLOWER
"""What several winners together must be faster by than the one that is best overall."""
_LISTED = 4
"""Configurations in a list: an autotuner tries all of them at each new size."""


@dataclass(frozen=True)
class Shaped:
    """What is fastest launch by launch, where that is not one version.

    `attempt` has all of it in one source; None where that cannot be written. `winners`: (version, the launches that it
    is the fastest on); the original is not among them.
    """

    attempt: Attempt | None = None
    winners: tuple[tuple[Attempt, tuple[str, ...]], ...] = ()


async def by_shape(search: Search, attempts: Sequence[Attempt]) -> Shaped:
    """Return a version that has the winner of every launch; nothing where one version is as good on all.

    As long as what a launch runs with is not kept apart by size, the best version overall makes some launches slower
    than they need be, or is refused because it makes one slower than it was. The version's time is that of the winners
    until it is measured itself.
    """
    original = search.original
    if len(original.assessed) < 2 or search.left_s <= 0:
        return Shaped()
    setting = [one for one in attempts if values_of(one.candidate) is not None]
    timed = [(one, _times(search, one)) for one in (original, *setting)]
    known = [(one, times) for one, times in timed if times is not None]
    if not known or known[0][0] is not original:
        return Shaped()
    counts = [a.launch.count for a in original.assessed]
    places = range(len(counts))
    winners = [min(known, key=lambda pair: pair[1][at])[0] for at in places]
    together = sum(counts[at] * min(times[at] for _, times in known) for at in places)
    alone = min(
        sum(counts[at] * times[at] for at in places)
        for one, times in known
        if one is original or not search.slower_launch(one)
    )
    distinct = list({id(one): one for one in winners if one is not original}.values())[:_LISTED]
    if alone < together * _WORTH or len({id(one) for one in winners}) < 2:
        return Shaped()
    ids = [one.launch.id for one in original.assessed]
    found = tuple((one, tuple(ids[at] for at in places if winners[at] is one)) for one in distinct)
    return Shaped(await _listed(search, distinct, winners), found)


async def _listed(search: Search, distinct: Sequence[Attempt], winners: Sequence[Attempt]) -> Attempt | None:
    original = search.original
    made = _one_source(search, distinct, winners)
    attempt = attempt_of(search, original, made) if made is not None else None
    if attempt is None:
        return None
    recall(search, attempt)
    if not attempt.decided:
        await compile_all(search, [attempt])
    if attempt.decided or len(attempt.assessed) != len(winners):
        return None if attempt.decided else attempt
    # It was compiled with its first configuration, and runs with its best.
    attempt.assessed = tuple(one.assessed[at] for at, one in enumerate(winners))
    if search.measured:
        attempt.samples = _joined(original, winners)
    return attempt


def _one_source(search: Search, distinct: Sequence[Attempt], winners: Sequence[Attempt]) -> Candidate | None:
    """Return the source that gives each launch its winner's values; None, with a note, where none can be written."""
    original, subject = search.original, search.subject
    first = original.first
    assert first is not None
    why = _alike(search, winners)
    if why is not None and subject.kernel.autotune is not None:
        keyed = _keyed(search, distinct, winners)
        if keyed is not None:
            return keyed
    if why is None:
        made = autotune_list(
            subject.kernel, subject.text, [values_of(one.candidate) or {} for one in distinct], first.launch
        )
        if not isinstance(made, Refusal):
            return made
        why = (
            "Launches of different sizes are fastest with different values, which cannot stand in an autotuner's list "
            f"here: {made.reason}"
        )
    found = [
        (one.launch, values_of(winner.candidate) or {}) for one, winner in zip(original.assessed, winners, strict=True)
    ]
    table = shape_table(subject.kernel, subject.texts(), found)
    if not isinstance(table, Refusal):
        return table
    search.note(
        f"{why.rstrip('.')}. Nor can a table in the host code: {table.reason.rstrip('.')}. tritonforge export writes "
        f"them as a table by size."
    )
    return None


def _keyed(search: Search, distinct: Sequence[Attempt], winners: Sequence[Attempt]) -> Candidate | None:
    """Return the source whose autotuner tells the launches apart, and has their winners; None without one."""
    original, subject = search.original, search.subject
    launches = [one.launch for one in original.assessed]
    wider = wider_key(
        subject.kernel, subject.text, [(one, id(winner)) for one, winner in zip(launches, winners, strict=True)]
    )
    kernel = None if isinstance(wider, Refusal) else search.kernel_in(wider[0])
    if isinstance(wider, Refusal) or kernel is None:
        return None
    text, names = wider
    made = autotune_list(kernel, text, [values_of(one.candidate) or {} for one in distinct], launches[0])
    if isinstance(made, Refusal):
        return None
    edits = edits_between(subject.file, subject.text, apply_edits(text, made.edits))
    return Candidate(
        f"tune for each {' and '.join(names)}; {made.title}", edits, (("autotune-key", ()), *made.rewrites)
    )


def _alike(search: Search, winners: Sequence[Attempt]) -> str | None:
    """Return why an autotuner would give two launches with different winners the same values; None where it would not.

    It tunes on whichever comes first, and keeps what it found for the other.
    """
    kernel = search.subject.kernel
    launches = [one.launch for one in search.original.assessed]
    for (at, one), (to, other) in combinations(enumerate(launches), 2):
        if winners[at] is not winners[to] and not told_apart(kernel, one, other):
            keys = ", ".join(tuned_by(kernel)) or "nothing"
            return (
                f"Launches {one.id} and {other.id} are fastest with different values, which an autotuner cannot give "
                f"them: it chooses by {keys} and the types of tensors, which are the same for both."
            )
    return None


def _times(search: Search, attempt: Attempt) -> list[float] | None:
    """Return the time in µs of each of its launches, in the order of the original's; None where one is not known."""
    if len(attempt.assessed) != len(search.original.assessed):
        return None
    if not search.measured:
        times: list[float] = [a.prediction.time_us if a.prediction else math.inf for a in attempt.assessed]
    else:
        found = attempt.times_by_launch()
        ids = [a.launch.id for a in search.original.assessed]
        if set(found) != set(ids):
            return None
        times = [found[launch] for launch in ids]
    return times if all(math.isfinite(time) for time in times) else None


def _joined(original: Attempt, winners: Sequence[Attempt]) -> Samples:
    rows: dict[str, tuple[float, ...]] = {}
    counts: Mapping[str, int] = original.samples.counts if original.samples else {}
    for assessed, winner in zip(original.assessed, winners, strict=True):
        launch = assessed.launch.id
        rows[launch] = winner.samples.by_launch[launch] if winner.samples else (winner.times_by_launch()[launch],)
    return Samples(rows, counts=counts)
