"""What is asked of and told to the client, each as far as it said that it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from tritonforge.lsp.notebooks import Layout


@dataclass(frozen=True)
class Abilities:
    """What the client can do."""

    pulls_diagnostics: bool = False
    refreshes_diagnostics: bool = False
    refreshes_lenses: bool = False
    refreshes_hints: bool = False
    shows_progress: bool = False
    applies_edits: bool = False
    versioned_edits: bool = False
    resolves_actions: bool = False
    action_literals: bool = False
    watches_files: bool = False
    shows_documents: bool = False
    reads_markdown: bool = True
    """Whether hovers may be Markdown; a client that does not say has always taken it."""

    @classmethod
    def of(cls, said: types.ClientCapabilities) -> Abilities:
        """Read what the client said at initialisation."""

        def has(path: str) -> bool:
            return bool(get_capability(said, path, False))

        resolvable = get_capability(said, "text_document.code_action.resolve_support.properties", ())
        formats = get_capability(said, "text_document.hover.content_format", None)
        return cls(
            reads_markdown=not formats or types.MarkupKind.Markdown in formats,
            pulls_diagnostics=get_capability(said, "text_document.diagnostic", None) is not None,
            refreshes_diagnostics=has("workspace.diagnostics.refresh_support"),
            refreshes_lenses=has("workspace.code_lens.refresh_support"),
            refreshes_hints=has("workspace.inlay_hint.refresh_support"),
            shows_progress=has("window.work_done_progress"),
            applies_edits=has("workspace.apply_edit"),
            versioned_edits=has("workspace.workspace_edit.document_changes"),
            resolves_actions="edit" in (resolvable or ()) and has("text_document.code_action.data_support"),
            watches_files=has("workspace.did_change_watched_files.dynamic_registration"),
            shows_documents=has("window.show_document.support"),
            action_literals=has("text_document.code_action.code_action_literal_support"),
        )


class Client:
    """The other side."""

    def __init__(self, server: LanguageServer) -> None:
        """Speak through `server`."""
        self._server = server
        self.can = Abilities()
        self.layout: Callable[[str], Layout | None] = lambda _: None
        """Says where the cells of a notebook are; set by who knows the documents."""
        self.opened: Callable[[str], tuple[str, int | None] | None] = lambda _: None
        """Returns text and version of an open document; set in the same way."""
        self._waiting: set[asyncio.Task[None]] = set()

    def say(self, sentence: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show a sentence."""
        self._server.window_show_message(types.ShowMessageParams(kind, _capital(sentence)))

    def warn(self, sentence: str) -> None:
        """Show a sentence about something that did not work."""
        self.say(sentence, types.MessageType.Warning)

    async def ask(self, question: str, *answers: str, kind: types.MessageType = types.MessageType.Info) -> str | None:
        """Show a question with buttons, and return the one that was chosen; None when none was."""
        params = types.ShowMessageRequestParams(
            kind, _capital(question), [types.MessageActionItem(answer) for answer in answers]
        )
        try:
            chosen = await self._server.window_show_message_request_async(params)
        except Exception:  # noqa: BLE001 - a client that cannot ask has not agreed
            return None
        return chosen.title if chosen is not None else None

    async def show(self, uri: str, line: int | None = None) -> None:
        """Have the client open a document, at a line (from 1) if one is given, where it can."""
        start = types.Position(line - 1, 0) if line is not None else None
        where = types.Range(start, start) if start is not None else None
        if self.can.shows_documents:
            try:
                await self._server.window_show_document_async(
                    types.ShowDocumentParams(uri, take_focus=True, selection=where)
                )
            except Exception:  # noqa: BLE001 - what is not shown is still a code action
                return

    async def edit(self, label: str, edit: types.WorkspaceEdit) -> str | None:
        """Have the client apply an edit; returns why it did not, or None."""
        if not self.can.applies_edits:
            return "this editor does not take edits from a server; use the code action"
        try:
            answer = await self._server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, label))
        except Exception as error:  # noqa: BLE001 - whatever it says goes to the user
            return str(error) or "the editor refused the edit"
        return None if answer.applied else answer.failure_reason or "the editor refused the edit"

    def edits(self, uri: str, version: int | None, edits: Sequence[types.TextEdit]) -> types.WorkspaceEdit:
        """Build an edit of one document, tied to its version where the client can check that.

        Edits of a notebook's text become edits of its cells.
        """
        return self.edits_of([(uri, version, edits)])

    def edits_of(self, documents: Sequence[tuple[str, int | None, Sequence[types.TextEdit]]]) -> types.WorkspaceEdit:
        """Build an edit of several documents, each given by its URI, its version and its edits."""
        parts: list[tuple[str, int | None, Sequence[types.TextEdit]]] = []
        for uri, version, edits in documents:
            layout = self.layout(uri)
            if layout is None:
                parts.append((uri, version, edits))
            else:
                parts += [(cell.uri, cell.version, own) for cell, own in layout.edits(edits)]
        if not self.can.versioned_edits:
            return types.WorkspaceEdit(changes={uri: list(own) for uri, _, own in parts})
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), list(own))
                for uri, version, own in parts
            ]
        )

    def refresh(self, *, diagnostics: bool = True) -> None:
        """Ask the client to ask again for what it shows."""
        if diagnostics and self.can.pulls_diagnostics and self.can.refreshes_diagnostics:
            self._forget(self._server.workspace_diagnostic_refresh_async(None))
        if self.can.refreshes_lenses:
            self._forget(self._server.workspace_code_lens_refresh_async(None))
        if self.can.refreshes_hints:
            self._forget(self._server.workspace_inlay_hint_refresh_async(None))

    def watch(self, *globs: str) -> None:
        """Ask the client to tell of files that change, where it can."""
        if self.can.watches_files:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(glob) for glob in globs])
            wish = types.Registration("tritonforge-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            self._forget(self._server.client_register_capability_async(types.RegistrationParams([wish])))

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[types.Diagnostic]) -> None:
        """Push diagnostics to a client that cannot pull."""
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, list(diagnostics), version=version)
        )

    async def begin(self, token: str, title: str) -> bool:
        """Begin to show progress; False when the client will not."""
        if not self.can.shows_progress:
            return False
        try:
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(token))
        except Exception:  # noqa: BLE001 - then there is none
            return False
        self._progress(token, types.WorkDoneProgressBegin(title, cancellable=True))
        return True

    def report(self, token: str, message: str, percentage: int | None) -> None:
        """Show how far it is."""
        self._progress(token, types.WorkDoneProgressReport(message=message, percentage=percentage, cancellable=True))

    def end(self, token: str, message: str) -> None:
        """End to show progress."""
        self._progress(token, types.WorkDoneProgressEnd(message=message))

    def _progress(
        self,
        token: str,
        value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd,
    ) -> None:
        self._server.progress(types.ProgressParams(token, value))

    def _forget(self, asked: object) -> None:
        """Let a request run whose answer says nothing."""

        async def wait() -> None:
            try:
                await asked  # type: ignore[misc]
            except Exception:  # noqa: BLE001 - a refresh that was refused loses nothing
                return

        task = asyncio.ensure_future(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


def _capital(sentence: str) -> str:
    # A sentence that begins with a kernel's name (`matmul_kernel: …`) keeps it as it is spelled.
    first = sentence.split(maxsplit=1)[0] if sentence.strip() else ""
    text = sentence[:1].upper() + sentence[1:] if first.isalpha() else sentence
    return text if text.endswith((".", "?", "!", ":", "…")) else f"{text}."
