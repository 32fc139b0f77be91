"""The last step of a search: what is going to be suggested is measured once more, in a fresh process."""

from __future__ import annotations

import dataclasses

from tritonforge.domain.candidate import Suggestion, Trial
from tritonforge.optimize.endings import OVER
from tritonforge.optimize.fairness import charged, disagreeing, unfair
from tritonforge.optimize.search import Attempt, BudgetSpent, Search
from tritonforge.optimize.steps import suggest, time_side_by_side
from tritonforge.optimize.worth import LEAST_GAIN, not_offered
from tritonforge.profiling.measuring import FINAL_SAMPLES

NOT_CHECKED = "not checked in a fresh process: budget spent"
RESERVE_S = 10.0
"""Seconds of a budget that are kept for this. To start a process and measure in it takes 2 to 3 on an H200."""
RESERVE_SHARE = 0.25
"""The share of a budget that is kept for this at most."""


def reserve(search: Search) -> None:
    """Keep a part of the budget for the check, where there is going to be one."""
    if search.measured:
        search.reserve_s = min(RESERVE_S, RESERVE_SHARE * search.budget_s)


async def confirm_best(search: Search) -> None:
    """Check the best version in a fresh process; where that does not hold, the one that was kept before it.

    Where no version holds, nothing is suggested. Where the budget ends before anything was checked, what was kept stays
    as it is, and a note says so.
    """
    search.reserve_s = 0.0
    kept = list(search.kept) if search.measured else []
    while kept:
        attempt = kept[-1]
        try:
            suggestion = await _confirmed(search, attempt)
        except BudgetSpent:
            if search.kept:
                leave_unchecked(search, "the budget ended before")
                return
            suggestion = None
            attempt.trial = dataclasses.replace(_trial(attempt), accepted=False, reason=NOT_CHECKED)
        if suggestion is not None:
            search.kept, search.suggestion = kept, suggestion
            search.remember(attempt, "kept")
            return
        kept.pop()
        # Once the check has failed, no other version is offered without it, however the search ends.
        search.kept, search.suggestion = [], None


def leave_unchecked(search: Search, why: str) -> None:
    """Say of what is suggested that the process which searched is the only one that has measured it."""
    if not search.measured or not search.kept:
        return
    attempt = search.kept[-1]
    if attempt.before is not None:  # the time that is shown beside it is of the same rounds
        search.original.settle(attempt.before, search.judge)
    search.suggestion = suggest(search, attempt)
    search.note_doubts(attempt)
    search.note(f"What is suggested was not checked in a fresh process: {why}.")


def explained(search: Search, reason: str) -> str:
    """Return why a search ended; where it had come to an end and only too little was gained, that is what it says."""
    if search.suggestion is not None or not search.gained_too_little:
        return reason
    said = f"best version found is {not_offered(search.gained_too_little)}"
    first, *others = reason.split("; ")
    if first in OVER:
        return "; ".join([f"the {said}", *others])
    search.notes.insert(0, f"The {said}.")
    return reason


async def _confirmed(search: Search, attempt: Attempt) -> Suggestion | None:
    """Measure original and winner once more, in a new process and with more samples: the number that people see.

    What the winner's host code has the GPU do beside the kernel counts, and each launch is judged by its own interval.

    Raises:
        BudgetSpent: when the budget ends before.
    """
    title, earlier = attempt.candidate.title, attempt.speedup
    search.say("confirm", title)
    before, after = await time_side_by_side(search, [attempt], samples=FINAL_SAMPLES, whole=True, fresh=True)
    if before.error or after.error:
        error = before.error or after.error
        search.disturbed = True
        search.note(f"{title} could not be timed again: {error}")
        attempt.trial = dataclasses.replace(
            _trial(attempt), accepted=False, reason=f"could not be timed again: {error}"
        )
        return None
    after, said = charged(before, after)
    if said:
        search.note(f"{title}: {said}")
    search.original.settle(before, search.judge)
    speedup, interval = attempt.settle_beside(before, after, search.judge)
    suggestion = suggest(search, attempt)
    reason = unfair(before, after, search.allow_slower)
    if interval[0] <= 1.0:
        reason = "not faster when measured again" + (f": {said}" if said else "")
    elif not reason and speedup < LEAST_GAIN:
        search.gained_too_little = max(search.gained_too_little, speedup)
        reason = not_offered(speedup)
    if reason:
        attempt.trial = dataclasses.replace(suggestion.trial, accepted=False, reason=reason)
        search.remember(attempt, "slower")
        search.note(f"{title}: {reason}, in a fresh process.")
        return None
    search.note_doubts(attempt)
    search.note(*disagreeing(title, earlier, (speedup, *interval)))
    return suggestion


def _trial(attempt: Attempt) -> Trial:
    assert attempt.trial is not None
    return attempt.trial
