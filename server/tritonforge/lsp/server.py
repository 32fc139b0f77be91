"""The server: which method is answered by what. Every handler reads a snapshot and answers in line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from tritonforge import __version__
from tritonforge.lsp import code_actions, code_lens, diagnostics, hover
from tritonforge.lsp.client import Abilities
from tritonforge.lsp.commands import COMMANDS, argument
from tritonforge.lsp.documents import path_of
from tritonforge.lsp.protocol import Protocol
from tritonforge.lsp.state import State
from tritonforge.lsp.workspaces import Options


class Server(LanguageServer):
    """The language server of one client. `stopping` is done, with the exit code, once it has to end."""

    protocol: Protocol

    def __init__(self) -> None:
        """Register every feature. Needs a running event loop."""
        super().__init__(
            "tritonforge",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self.state = State(self)
        self.stopping: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        _register(self)

    def stop(self, code: int) -> None:
        """End the server with an exit code."""
        if not self.stopping.done():
            self.stopping.set_result(code)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Leave errors to the log: a user can do nothing about most of them, and requests are answered anyway."""


def _register(server: Server) -> None:
    state = server.state

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        state.client.can = Abilities.of(params.capabilities)
        state.documents.encoding = _encoding(server)
        uris = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
        state.workspaces.folders = tuple(path for uri in uris if (path := path_of(uri)) is not None)
        state.options = Options.read(params.initialization_options)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        for problem in state.options.problems:
            state.client.warn(problem)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        said = params.settings
        ours = said.get("tritonforge") if isinstance(said, Mapping) else None
        if isinstance(ours, Mapping):
            options = Options.read(ours)
            if options != state.options:
                state.reconfigure(options)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        gone = {path_of(folder.uri) for folder in params.event.removed}
        new = tuple(path for folder in params.event.added if (path := path_of(folder.uri)) is not None)
        state.workspaces.folders = tuple(f for f in state.workspaces.folders if f not in gone) + new

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(_: types.DidChangeWatchedFilesParams) -> None:
        state.client.refresh()  # settings are read again when they are next needed, which is now

    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="tritonforge"),
    )
    def pull(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        snapshot = state.snapshot(params.text_document.uri)
        settings = state.settings(snapshot.root) if snapshot else None
        return diagnostics.report(snapshot, state.facts, settings, params.previous_result_id)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        snapshot = state.snapshot(params.text_document.uri)
        if snapshot is None:
            return None
        return hover.hover(snapshot, state.facts, state.settings(snapshot.root), params.position)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        snapshot = state.snapshot(params.text_document.uri)
        if snapshot is None:
            return []
        return code_lens.code_lenses(snapshot, state.facts, state.jobs, trusted=state.options.trusted)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(
            code_action_kinds=[types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix],
            resolve_provider=True,
        ),
    )
    def actions(params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
        snapshot = state.snapshot(params.text_document.uri)
        if snapshot is None:
            return []
        return code_actions.code_actions(snapshot, state.facts, state.client, params, trusted=state.options.trusted)

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        data = action.data
        snapshot = state.snapshot(str(data.get("uri"))) if isinstance(data, Mapping) else None
        return code_actions.resolve(action, snapshot, state.facts, state.client)

    for name in COMMANDS:
        server.command(name)(_command(state, name))


def _command(state: State, name: str) -> Callable[..., dict[str, Any]]:
    # A plain function: pygls fills the parameters of a `partial` that are bound already.
    def run(*arguments: Any) -> dict[str, Any]:
        return COMMANDS[name](state, argument(arguments))

    return run


def _encoding(server: Server) -> str:
    chosen = server.workspace.position_encoding
    return chosen.value if isinstance(chosen, types.PositionEncodingKind) else str(chosen)
