"""A suggestion as a client shows it: the whole text it leads to, for a diff editor; and how one is turned down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from lsprotocol import types

from tritonforge.domain.errors import UsageError
from tritonforge.domain.source import apply_edits
from tritonforge.lsp import summary
from tritonforge.lsp.documents import Snapshot, path_of
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.notebooks import Layout
from tritonforge.lsp.positions import PositionedText
from tritonforge.store.keys import text_hash

if TYPE_CHECKING:
    from tritonforge.lsp.state import State

SCHEME = "tritonforge-suggestion"


def address(uri: str, offer: Offer) -> str:
    """Return the URI under which a client that said `previews` shows an offer beside the document at `uri`."""
    path = path_of(uri)
    query = urlencode({"uri": uri, "kernel": offer.kernel.name, "suggestion": offer.id}, quote_via=quote)
    return f"{SCHEME}:{quote(path.as_posix() if path else 'suggestion.py')}?{query}"


def preview(state: State, snapshot: Snapshot, offer: Offer) -> dict[str, Any]:
    """Return what a diff editor needs; `text` is null when the code has changed since the suggestion was verified.

    Of a notebook, `uri` and `text` are the changed cell's.

    Raises:
        UsageError: several cells or another file change, which no diff editor shows.
    """
    edits = offer.edits_for(snapshot)
    if offer.others:
        files = ", ".join(dict.fromkeys(edit.file for edit in offer.suggestion.trial.candidate.edits))
        raise UsageError(f"The suggestion changes {files}.", "Apply it to look at it; undo takes it back.")
    uri, text = snapshot.uri, None if edits is None else apply_edits(snapshot.text, edits)
    if edits is not None and snapshot.cells is not None:
        uri, text = _cell(state, snapshot.cells, [snapshot.positions.edit(edit) for edit in edits])
    return {"uri": uri, "kernel": offer.kernel.name, "suggestion": offer.id, **brief(offer), "text": text}


def _cell(state: State, cells: Layout, edits: Sequence[types.TextEdit]) -> tuple[str, str | None]:
    changed = cells.edits(edits)
    if len(changed) != 1:
        raise UsageError("The suggestion changes several cells.", "Apply it to look at it; undo takes it back.")
    [(cell, own)] = changed
    text = state.documents.text(cell.uri)
    if text is None:
        return cell.uri, None
    positions = PositionedText(text, state.documents.encoding)
    for edit in sorted(own, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        positions = positions.changed(types.TextDocumentContentChangePartial(edit.range, edit.new_text))
    return cell.uri, positions.text


def brief(offer: Offer) -> dict[str, Any]:
    """Return an offer in words."""
    return {
        "title": offer.suggestion.trial.candidate.title,
        "gain": summary.gain(offer.suggestion),
        "summary": summary.verified(offer.suggestion),
    }


def discard(state: State, uri: str, kernel: str, suggestion: object) -> Mapping[str, Any]:
    """Forget an offer, unless there is another one by now."""
    uri = state.documents.owner(uri)
    offer = state.facts.offered(uri, kernel)
    if offer is None or suggestion not in (None, offer.id):
        return {"discarded": False}
    state.facts.discard(uri, kernel)
    root = state.workspaces.place(path_of(uri), uri)[0]
    workspace, diff = state.workspaces.of(root), text_hash(offer.suggestion.diff)

    def remember() -> None:
        with contextlib.suppress(UsageError):  # a newer TritonForge wrote the store
            workspace.store().turn_down(offer.kernel.file, kernel, diff)

    if workspace.has_store:
        state.in_background(asyncio.to_thread(remember))
    state.client.refresh(diagnostics=False)
    return {"discarded": True}
