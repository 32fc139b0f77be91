"""The language model in the editor: one clear question before any code is sent, then proposals, specs and plain words.

Nothing is sent from a workspace that is not trusted, nor before the user has agreed for this workspace and this
address. The answer is kept in the user's own folder.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.jobs import Job

if TYPE_CHECKING:
    from tritonforge.lsp.state import State
    from tritonforge.rewrite.llm.assistant import Assistant
    from tritonforge.workload.drafting import Draft

SEND, NOT_NOW, NEVER = "Send Code", "Not Now", "Never in This Workspace"


async def may_send(state: State, snapshot: Snapshot, job: Job | None = None) -> bool:
    """Tell whether a model is configured and the user agrees that code is sent to it; ask where that is not known."""
    settings = state.settings(snapshot.root).llm
    if not settings.enabled or not state.options.trusted or snapshot.path is None:
        return False
    from tritonforge.rewrite.llm.client import plain_endpoint

    return await _agreed(state, snapshot.root, settings.model or "", plain_endpoint(settings), job)


async def draft(state: State, snapshot: Snapshot, kernel: Kernel, job: Job | None = None) -> Draft | None:
    """Return a model's launch spec; None where no model may be asked, or has none that can be parsed."""
    assistant = await _assistant(state, snapshot, job)
    if assistant is None:
        return None
    try:
        return await assistant.draft(snapshot.text, kernel, snapshot.analysis)
    finally:
        await assistant.close()


async def _assistant(state: State, snapshot: Snapshot, job: Job | None) -> Assistant | None:
    if not await may_send(state, snapshot, job):
        return None
    from tritonforge.rewrite.llm.assistant import open_assistant

    store = await asyncio.to_thread(state.workspaces.of(snapshot.root).store)
    try:
        return open_assistant(state.settings(snapshot.root).llm, snapshot.root, store)
    except UsageError as error:
        state.client.warn(str(error))
        return None


async def _agreed(state: State, root: Path, model: str, endpoint: str, job: Job | None) -> bool:
    """Tell whether the user agrees that code of a workspace is sent to an address; ask where that is not known."""
    async with state.consents.turn:  # two searches that begin together ask once
        return await _answer(state, root, model, endpoint, job)


async def _answer(state: State, root: Path, model: str, endpoint: str, job: Job | None) -> bool:
    known = await asyncio.to_thread(state.consents.asked, root, endpoint)
    if known is not None:
        return known
    if job is not None:
        job.report("waiting for an answer")
    answer = await state.client.ask(
        f"Ask the language model {model} for faster versions, too? The source of the kernel, its helpers and its host "
        f"function, with shapes and measurements, will be sent to {endpoint}. Everything it proposes is checked and "
        "verified before you see it",
        SEND, NOT_NOW, NEVER,
    )  # fmt: skip
    if answer in {SEND, NEVER}:
        await asyncio.to_thread(state.consents.remember, root, endpoint, agreed=answer == SEND)
    elif answer == NOT_NOW:
        state.consents.for_now(root, endpoint, agreed=False)
    return answer == SEND
