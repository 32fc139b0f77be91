"""The last check of a candidate on a GPU: its recorded calls under a sanitiser."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Limits, Program, Sanitize
from tritonforge.jobs import JobError, Worker

BUDGET_S = 60.0
"""Seconds for one call: a sanitiser makes kernels ten to a hundred times slower."""
_LIMITS = Limits(seconds=BUDGET_S + 30.0, memory_bytes=64 << 30)
_MOST_CALLS = 2


async def sanitiser_says(
    worker: Worker, original: Program, candidate: Program, calls: Sequence[Call]
) -> tuple[str, str]:
    """Run the first calls of a candidate under every check of a sanitiser.

    Returns:
        The check of a verdict, and why the candidate is refused (empty when it is not). What the original is found
        guilty of, too, is no fault of the candidate's.
    """
    said = "skipped: there is no call"
    for call in calls[:_MOST_CALLS]:
        try:
            found = await worker.run(Sanitize(candidate, call, budget_s=BUDGET_S), limits=_LIMITS)
        except JobError as error:
            return f"skipped: {error.message}", ""
        if found.errors:
            theirs = await _errors_of(worker, original, call)
            if theirs:
                said = f"skipped: the original itself does not pass it: {theirs[0]}"
                continue
            return f"failed: {found.errors[0]}", f"{found.tool}: {found.errors[0]}"
        if found.skipped:
            said = f"skipped: {found.skipped}"
            if not found.checked:
                return said, ""
        else:
            said = "passed"
    return said, ""


async def _errors_of(worker: Worker, program: Program, call: Call) -> tuple[str, ...]:
    try:
        return (await worker.run(Sanitize(program, call, budget_s=BUDGET_S), limits=_LIMITS)).errors
    except JobError:
        return ()
