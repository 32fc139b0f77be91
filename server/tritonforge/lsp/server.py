"""The server: which method is answered by what. Every handler reads a snapshot and answers in line.

What the features need is imported when the first one is asked for: `initialize` is to be answered before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter
from pygls.uris import to_fs_path

from tritonforge import __version__
from tritonforge.lsp import names
from tritonforge.lsp.client import Abilities, Client
from tritonforge.lsp.options import Options
from tritonforge.lsp.protocol import Protocol

if TYPE_CHECKING:
    from tritonforge.lsp.documents import Snapshot
    from tritonforge.lsp.state import State


class Server(LanguageServer):
    """The language server of one client. `stopping` is done, with the exit code, once it has to end."""

    protocol: Protocol

    def __init__(self) -> None:
        """Register every feature. Needs a running event loop."""
        super().__init__(
            "tritonforge",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=types.NotebookDocumentSyncOptions(
                [types.NotebookDocumentFilterWithNotebook("*", [types.NotebookCellLanguage("python")])]
            ),
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self.client = Client(self)
        self.options = Options()
        self.folders: tuple[Path, ...] = ()
        self.stopping: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        _register_lifecycle(self)
        _register_features(self)
        for name in names.ALL:
            self.command(name)(_command(self, name))

    @cached_property
    def state(self) -> State:
        """Everything that is known, from the first use on."""
        from tritonforge.lsp.state import State
        from tritonforge.lsp.work import inspect

        encoding = self.workspace.position_encoding
        name = encoding.value if isinstance(encoding, types.PositionEncodingKind) else str(encoding)
        state = State(self.client, self.options, name, inspect)
        state.workspaces.folders = self.folders
        return state

    async def close(self) -> None:
        """End everything that was begun."""
        if "state" in self.__dict__:
            await self.state.close()

    def stop(self, code: int) -> None:
        """End the server with an exit code."""
        if not self.stopping.done():
            self.stopping.set_result(code)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Leave errors to the log: a user can do nothing about most of them, and requests are answered anyway."""

    def is_prepared(self, uri: str) -> bool:
        """Tell whether questions about a document can be answered at once; see `Documents.prepare`."""
        return "state" not in self.__dict__ or self.state.documents.is_prepared(uri)

    def snapshot(self, document: types.TextDocumentIdentifier) -> Snapshot | None:
        """Return an open document as it is now."""
        return self.state.snapshot(document.uri)


def _register_lifecycle(server: Server) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.client.can = Abilities.of(params.capabilities)
        uris = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
        server.folders = tuple(Path(path) for uri in uris if (path := to_fs_path(uri)))
        server.options = Options.read(params.initialization_options)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        for problem in server.state.options.problems:
            server.client.warn(problem)
        server.client.watch("**/*.py", "**/tritonforge.toml", "**/pyproject.toml")

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        said = params.settings
        ours = said.get("tritonforge") if isinstance(said, Mapping) else None
        if isinstance(ours, Mapping):
            options = Options.read(ours)
            if options != server.state.options:
                server.state.reconfigure(options)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        gone = {to_fs_path(folder.uri) for folder in params.event.removed}
        new = tuple(Path(path) for folder in params.event.added if (path := to_fs_path(folder.uri)))
        kept = tuple(folder for folder in server.state.workspaces.folders if str(folder) not in gone)
        server.state.workspaces.folders = kept + new

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [Path(path) for change in params.changes if (path := to_fs_path(change.uri))]
        server.state.files_changed([path for path in paths if path.suffix == ".py"])
        if any(path.suffix != ".py" for path in paths):
            server.client.refresh()  # settings are read again when they are next needed, which is now


def _register_features(server: Server) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier="tritonforge"),
    )
    @_in_cells(server)
    def diagnostic(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        from tritonforge.lsp import diagnostics

        snapshot = server.snapshot(params.text_document)
        settings = server.state.settings(snapshot.root) if snapshot else None
        return diagnostics.report(snapshot, server.state.facts, settings, params.previous_result_id)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    @_in_cells(server)
    def hover(params: types.HoverParams) -> types.Hover | None:
        from tritonforge.lsp import hover

        snapshot = server.snapshot(params.text_document)
        if snapshot is None:
            return None
        state, markdown = server.state, server.client.can.reads_markdown
        return hover.hover(snapshot, state.facts, state.settings(snapshot.root), params.position, markdown=markdown)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    @_in_cells(server)
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        from tritonforge.lsp import code_lens

        state, snapshot = server.state, server.snapshot(params.text_document)
        if snapshot is None:
            return []
        ways = state.ways_for(snapshot.uri)
        trusted, previews = state.options.trusted, state.options.previews
        return code_lens.code_lenses(snapshot, state.facts, state.jobs, ways, trusted=trusted, previews=previews)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    @_in_cells(server)
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        from tritonforge.lsp import inlay_hints

        snapshot = server.snapshot(params.text_document)
        if snapshot is None or not server.state.options.inlay_hints:
            return []
        return inlay_hints.inlay_hints(snapshot, server.state.facts, params.range)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(
            code_action_kinds=[types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix],
            resolve_provider=True,
        ),
    )
    @_in_cells(server)
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
        from tritonforge.lsp import code_actions

        state, snapshot = server.state, server.snapshot(params.text_document)
        if snapshot is None:
            return []
        ways = state.ways_for(snapshot.uri)
        return code_actions.code_actions(
            snapshot, state.facts, server.client, params, ways, trusted=state.options.trusted
        )

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        from tritonforge.lsp import code_actions

        data = action.data
        snapshot = server.state.snapshot(str(data.get("uri"))) if isinstance(data, Mapping) else None
        return code_actions.resolve(action, snapshot, server.state.facts, server.client)


def _in_cells(server: Server) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Let a handler that speaks of a whole notebook answer requests about one of its cells."""

    def around(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(handler)
        def run(params: Any) -> Any:
            from tritonforge.lsp.notebooks import into_cell, into_notebook

            documents, uri = server.state.documents, params.text_document.uri
            layout = documents.notebooks.layout(documents.owner(uri))
            if layout is None:
                return handler(params)
            cell = layout.of(uri)
            # A cell of text, and one that was closed a moment ago, have nothing.
            return into_cell(handler(into_notebook(params, cell)), cell) if cell is not None else None

        return run

    return around


def _command(server: Server, name: str) -> Callable[..., Any]:
    # A plain function: pygls fills the parameters of a `partial` that are bound already.
    def run(*arguments: Any) -> Any:
        from tritonforge.lsp.commands import COMMANDS, argument

        given, state = argument(arguments), server.state
        uri = given.get("uri")
        if not isinstance(uri, str) or not uri.endswith(".py") or state.snapshot(uri) is not None:
            return COMMANDS[name](state, given)

        async def read_first() -> Any:
            await state.read(uri)
            answer = COMMANDS[name](state, given)
            return await answer if isinstance(answer, Awaitable) else answer

        return read_first()

    return run
