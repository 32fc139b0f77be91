"""A suggestion kept portable: `@triton.autotune` with the old and the new values, verified before it is applied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tritonforge.analysis import analyze
from tritonforge.backend.tasks import Version
from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import apply_edits
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.jobs import Job

if TYPE_CHECKING:
    from tritonforge.lsp.state import State


async def keep(state: State, snapshot: Snapshot, offer: Offer, job: Job) -> str:
    """Verify the portable form of an offer, and apply it when it is accepted.

    Raises:
        UsageError: the code has changed, the form was refused, or the client refused the edit.
    """
    from tritonforge.lsp import verifying, work

    kernel = snapshot.kernel(offer.kernel.name)
    edits = offer.portable_edits_for(snapshot)
    if kernel is None or edits is None:
        raise UsageError(f"The code of {offer.kernel.name} has changed since it was optimized.", "Run Optimize again.")
    text = apply_edits(snapshot.text, edits)
    kernels = (await asyncio.to_thread(analyze, text, snapshot.file)).kernels
    found = next((one for one in kernels if one.name == kernel.name), None)
    if found is None:
        raise UsageError(f"The autotuned form of {kernel.name} cannot be read.")
    version = Version(text, "its autotuned form", found)
    verdict = await work.judge(state, snapshot, kernel, version, job, allow_run=False)
    state.verdicts.keep(job.id, verdict)
    if not verdict.accepted:
        raise UsageError(f"The autotuned form of {kernel.name} was not applied: {verdict.reason}")
    now = state.look_at(snapshot.uri)
    edits = offer.portable_edits_for(now) if now is not None else None
    if now is None or edits is None:
        raise UsageError(f"The code of {kernel.name} changed while it was verified.", "Try it again.")
    edit = state.client.edits(now.uri, now.version, [now.positions.edit(one) for one in edits])
    problem = await state.client.edit(f"Keep {kernel.name} portable", edit)
    if problem is not None:
        raise UsageError(f"The edit was not applied: {problem}.")
    return f"Applied. {verifying.outcome(verdict)}"
