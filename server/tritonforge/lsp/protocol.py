"""pygls's protocol, made to answer in every state and to survive what it does not know.

Differences: documents are kept by us (its own cuts lines where Python does, not where the protocol does); values of an
enumeration that we do not know are dropped instead of failing the message; a request before `initialize`, after
`shutdown`, or that cannot be read is answered with an error instead of silence.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import re
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast
from typing import Protocol as Interface

from cattrs import transform_error
from cattrs.errors import BaseValidationError
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol, lsp_method

if TYPE_CHECKING:
    from tritonforge.lsp.state import State

_log = logging.getLogger("tritonforge.lsp")
_PATH = re.compile(r" @ \$\.(\S+)$")
_STEP = re.compile(r"\.?([A-Za-z_]\w*)|\[(\d+)\]")
_ROUNDS = 8


class Host(Interface):
    """What a connection needs of the server behind it."""

    @property
    def state(self) -> State:
        """Everything the server holds."""

    async def close(self) -> None:
        """End everything that was begun."""

    def stop(self, code: int) -> None:
        """Leave, with this exit code."""


class Protocol(LanguageServerProtocol):
    """One connection."""

    @property
    def _host(self) -> Host:
        return cast("Host", self._server)

    def receive(self, data: Any) -> None:
        """Handle one message as `json.loads` made it; never raises for what the client sent."""
        request_id = data.get("id") if isinstance(data, dict) and "method" in data else None
        try:
            message = self.structure_leniently(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client waits for an answer
            _log.warning("a message could not be read: %s", _first(error))
            if request_id is not None:
                self._refuse(request_id, types.ErrorCodes.InvalidParams, f"The parameters are wrong: {_first(error)}")
            return
        method = getattr(message, "method", None)
        if request_id is not None and self._is_out_of_turn(request_id, method):
            return
        if request_id is None and method is not None and not self._initialized and method != types.EXIT:
            return  # a notification before `initialize` says nothing yet
        try:
            self.handle_message(message)
        except Exception:  # noqa: BLE001 - a message that breaks a handler must not end the connection
            _log.exception("handling %s failed", method or "an answer")

    def structure_leniently(self, data: Any) -> Any:
        """Turn a message into lsprotocol's types; values that those do not know are left out and tried again."""
        if not isinstance(data, dict) or "jsonrpc" not in data:
            raise ValueError("no JSON-RPC message")
        if "method" not in data:
            return self.structure_message(data)
        kind = self.get_message_type(data["method"])
        if kind is None:
            return self.structure_message(data)
        for _ in range(_ROUNDS):
            try:
                return self._converter.structure(data, kind)
            except BaseValidationError as error:
                places = [found[1] for line in transform_error(error) if (found := _PATH.search(line))]
                pruned = _without(data, places)
                if pruned == data:
                    raise
                data = pruned
        return self._converter.structure(data, kind)

    def refuse_cancelled(self, request_id: Any) -> None:
        """Answer a request that the client cancelled before it was begun."""
        self._refuse(request_id, types.LSPErrorCodes.RequestCancelled, "The request was cancelled.")

    @property
    def has_shut_down(self) -> bool:
        """Whether the client asked for the end."""
        return self._shutdown

    @property
    def _initialized(self) -> bool:
        return self._workspace is not None

    def _is_out_of_turn(self, request_id: Any, method: str | None) -> bool:
        if self._shutdown:
            self._refuse(request_id, types.ErrorCodes.InvalidRequest, "The server is shutting down.")
        elif not self._initialized and method not in (types.INITIALIZE, types.SHUTDOWN):
            self._refuse(request_id, types.ErrorCodes.ServerNotInitialized, "The server is not initialized yet.")
        elif self._initialized and method == types.INITIALIZE:
            self._refuse(request_id, types.ErrorCodes.InvalidRequest, "The server is initialized already.")
        else:
            return False
        return True

    def _refuse(self, request_id: Any, code: types.ErrorCodes | types.LSPErrorCodes, message: str) -> None:
        self._send_response(request_id, error=types.ResponseError(code.value, message))

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *_: Any) -> None:  # type: ignore[override]
        """End all work, and answer once it has ended; the process stays until `exit`."""
        self._shutdown = True
        await self._host.close()
        own: Any = asyncio.current_task()
        for future in tuple(self._request_futures.values()):
            if future is not own and not future.done():
                future.cancel()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: Any) -> None:  # type: ignore[override]
        """End the process: 0 after a `shutdown`, 1 without."""
        self._host.stop(0 if self._shutdown else 1)

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take over a document."""
        document = params.text_document
        self._host.state.documents.open(document.uri, document.version, document.text)
        self._host.state.opened(document.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply changes."""
        document = params.text_document
        self._host.state.documents.change(document.uri, document.version, tuple(params.content_changes))
        self._host.state.changed(document.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget a document."""
        uri = self._host.state.documents.owner(params.text_document.uri)
        self._host.state.documents.close(uri)
        self._host.state.closed(uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take over a notebook with its cells."""
        notebook, documents = params.notebook_document, self._host.state.documents
        for cell in params.cell_text_documents:
            documents.open(cell.uri, cell.version, cell.text)
        documents.notebooks.open(notebook.uri, notebook.version, notebook.cells)
        self._host.state.opened(notebook.uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Apply changes of a notebook: its cells first, then their texts."""
        notebook, documents = params.notebook_document, self._host.state.documents
        change = params.change.cells
        structure = change.structure if change is not None else None
        for opened in (structure.did_open if structure is not None else None) or ():
            documents.open(opened.uri, opened.version, opened.text)
        documents.notebooks.splice(notebook.uri, notebook.version, structure.array if structure is not None else None)
        for closed in (structure.did_close if structure is not None else None) or ():
            documents.close(closed.uri)
        if change is not None:
            documents.notebooks.replace(notebook.uri, change.data or ())
            for text in change.text_content or ():
                documents.change(text.document.uri, text.document.version, tuple(text.changes))
        self._host.state.changed(notebook.uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook and its cells."""
        uri, documents = params.notebook_document.uri, self._host.state.documents
        cells = documents.notebooks.close(uri)
        for cell in dict.fromkeys((*cells, *(one.uri for one in params.cell_text_documents))):
            documents.close(cell)
        self._host.state.closed(uri, cells)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:  # type: ignore[override]
        """Run a command. One that has to wait for something ends when the client cancels the request."""
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"There is no command {params.command!r}.")
        answer = handler(*(params.arguments or ()))
        return await answer if isinstance(answer, Awaitable) else answer

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        """Cancel a job: its progress token is its id."""
        self._host.state.jobs.cancel(str(params.token))


def _first(error: BaseException) -> str:
    lines = transform_error(error) if isinstance(error, BaseValidationError) else [str(error)]
    return lines[0] if lines and lines[0] else type(error).__name__


def _without(data: dict[str, Any], places: list[str]) -> dict[str, Any]:
    """Return `data` without the values at `places`, which are written `params.text_document.xs[3]`."""
    pruned = copy.deepcopy(data)
    steps = [[name or int(index) for name, index in _STEP.findall(place)] for place in places]
    # From the back, so that removing one item of a list does not move the others that are to go.
    for path in sorted(steps, key=lambda path: [(isinstance(s, int), str(s).zfill(9)) for s in path], reverse=True):
        *outer, last = path
        at: Any = pruned
        try:
            for step in outer:
                at = at[_key(at, step)]
            del at[_key(at, last)]
        except (KeyError, IndexError, TypeError):
            continue
    return pruned


def _key(at: Any, step: str | int) -> str | int:
    if isinstance(step, int) or step in at:
        return step
    head, *rest = step.split("_")
    return head + "".join(word.capitalize() for word in rest)
