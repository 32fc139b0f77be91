"""The gate between the version that a baseline recorded and the present one: does it still compute the same?"""

from __future__ import annotations

from dataclasses import dataclass

from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.regression.subjects import Checked, RecordedVersion
from tritonforge.verify import Gate, reference_beside

SEED = 20_480
"""The same inputs on every runner and every day: a check that passes once passes again."""
_UNFINISHED = "it could not be run to the end"


@dataclass(frozen=True)
class Reverified:
    """What the gate said, in a sentence; `wrong`: on some input the results differ."""

    wrong: bool
    sentence: str


async def reverify(one: Checked, version: RecordedVersion, session: Session) -> Reverified:
    """Compare the results of the present version with those of the recorded one.

    A person may change a kernel in ways that a rewrite may not (another API, other constants), and updates the baseline
    then: only results that differ make a kernel wrong. What else the gate objects to is told.
    """
    original = version.program
    gate = Gate(
        session.worker,
        original,
        one.subject.calls,
        on_device=session.measures,
        seed=SEED,
        arch=session.arch,
        kernel=version.kernel,
        reference=reference_beside(original, one.subject.calls),
    )
    try:
        trialled = await gate.check(one.subject.program(), candidate_kernel=one.kernel)
    except JobError as error:
        return Reverified(False, f"not verified: {error.failure.message}")
    verdict = trialled.verdict
    if verdict.accepted:
        count = len(verdict.tried)
        return Reverified(False, f"verified: as the recorded version on {count} inputs, judged by {verdict.oracle}")
    reason = verdict.reason.rstrip(".")
    results = verdict.checks.get("results", "")
    if results.startswith("failed") and not reason.startswith(_UNFINISHED):
        where = f" on {trialled.failing_input}" if trialled.failing_input else ""
        said = f"it does not compute what the recorded version does{where}: {reason} (replay {verdict.replay})"
        return Reverified(True, said)
    return Reverified(False, f"not verified: {reason}")
