"""A suggestion as a client shows it: the whole text it leads to, for a diff editor; and how one is turned down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tritonforge.domain.source import apply_edits
from tritonforge.lsp import summary
from tritonforge.lsp.documents import Snapshot, path_of
from tritonforge.lsp.facts import Offer

if TYPE_CHECKING:
    from tritonforge.lsp.state import State

SCHEME = "tritonforge-suggestion"


def address(uri: str, offer: Offer) -> str:
    """Return the URI under which a client that said `previews` shows an offer beside the document at `uri`."""
    path = path_of(uri)
    query = urlencode({"uri": uri, "kernel": offer.kernel.name, "suggestion": offer.id}, quote_via=quote)
    return f"{SCHEME}:{quote(path.as_posix() if path else 'suggestion.py')}?{query}"


def preview(snapshot: Snapshot, offer: Offer) -> dict[str, Any]:
    """Return what a diff editor needs; `text` is null when the code has changed since the suggestion was verified."""
    edits = offer.edits_for(snapshot)
    return {
        "uri": snapshot.uri,
        "kernel": offer.kernel.name,
        "suggestion": offer.id,
        **brief(offer),
        "text": None if edits is None else apply_edits(snapshot.text, edits),
    }


def brief(offer: Offer) -> dict[str, Any]:
    """Return an offer in words."""
    return {
        "title": offer.suggestion.trial.candidate.title,
        "gain": summary.gain(offer.suggestion),
        "summary": summary.verified(offer.suggestion),
    }


def discard(state: State, uri: str, kernel: str, suggestion: object) -> Mapping[str, Any]:
    """Forget an offer, unless there is another one by now."""
    offer = state.facts.offered(uri, kernel)
    if offer is None or suggestion not in (None, offer.id):
        return {"discarded": False}
    state.facts.discard(uri, kernel)
    state.client.refresh(diagnostics=False)
    return {"discarded": True}
