"""Suggestions and specs put into the user's document, by the client and at the version they were made for."""

from __future__ import annotations

from dataclasses import replace

from lsprotocol import types

from tritonforge.domain.errors import UsageError
from tritonforge.lsp import model, suggestions, summary
from tritonforge.lsp.code_actions import edit_of
from tritonforge.lsp.documents import Snapshot
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.state import State

APPLY, COMPARE = "Apply", "Show Diff"


async def propose(state: State, uri: str, offer: Offer) -> None:
    """Tell the user what was found, with a button that applies it, and one that shows it where the client can."""
    found = f"{offer.kernel.name}: {summary.verified(offer.suggestion)} ({offer.suggestion.trial.candidate.title})."
    answers = (APPLY, COMPARE) if state.options.previews and state.client.can.shows_documents else (APPLY,)
    answer = await state.client.ask(found, *answers)
    if answer in (APPLY, COMPARE) and state.facts.offered(uri, offer.kernel.name) is None:
        state.client.warn(f"The suggestion for {offer.kernel.name} was discarded. Run Optimize again.")
    elif answer == COMPARE:
        await state.client.show(suggestions.address(uri, offer))
    elif answer == APPLY:
        try:
            await apply(state, uri, offer)
        except UsageError as error:
            state.client.warn(str(error))


async def apply(state: State, uri: str, offer: Offer) -> str:
    """Apply a suggestion to the document as it is now.

    Raises:
        UsageError: the document is gone, its code has changed, or the client refused.
    """
    snapshot = state.look_at(uri)
    if snapshot is None:
        raise UsageError(f"{offer.kernel.file} cannot be read any more.", "Run Optimize again.")
    edit = edit_of(offer, snapshot, state.client)
    if edit is None:
        raise UsageError(f"The code of {offer.kernel.name} has changed since it was optimized.", "Run Optimize again.")
    problem = await state.client.edit(f"Optimize {offer.kernel.name}", edit)
    if problem is not None:
        raise UsageError(f"The suggestion was not applied: {problem}.")
    return "Applied"


async def write_spec(state: State, snapshot: Snapshot, name: str) -> str:
    """Insert a first launch spec above what launches a kernel, or above the kernel, for the user to correct.

    Raises:
        UsageError: the kernel is gone, or the client refused.
    """
    from tritonforge.workload.drafting import first_spec

    kernel = snapshot.kernel(name)
    if kernel is None:
        raise UsageError(f"{snapshot.name} defines no kernel {name!r} any more.")
    drafted = await model.draft(state, snapshot, kernel)
    snapshot = state.snapshot(snapshot.uri) or snapshot
    kernel = snapshot.kernel(name) or kernel
    draft = first_spec(kernel, snapshot.analysis)
    if drafted is not None and drafted.function == draft.function:
        draft = replace(draft, text=drafted.text)
    line = draft.line - 1
    text = snapshot.positions.line(line)
    indent = text[: len(text) - len(text.lstrip())]
    start = types.Position(line, 0)
    end = "\r\n" if "\r\n" in snapshot.text else "\n"
    insert = types.TextEdit(types.Range(start, start), draft.comment(indent, end))
    edit = state.client.edits(snapshot.uri, snapshot.version, [insert])
    problem = await state.client.edit(f"Write a launch spec for {kernel.name}", edit)
    if problem is not None:
        raise UsageError(f"The launch spec was not written: {problem}.")
    return f"Launch spec written above {draft.function}; correct its sizes"
