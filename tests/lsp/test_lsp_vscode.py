"""The features as pytest-lsp's client sees them, which checks every message against what VS Code says it can do."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsp_client import CAPABILITIES
from lsprotocol import converters, types
from pytest_lsp import ClientServerConfig, LanguageClient, make_test_lsp_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul.py"


def vscode():
    """A client that answers what VS Code answers and pytest-lsp's leaves out."""
    made = make_test_lsp_client()
    asked = {types.CLIENT_REGISTER_CAPABILITY, types.WORKSPACE_CODE_LENS_REFRESH, types.WORKSPACE_INLAY_HINT_REFRESH}
    for method in asked - made.protocol.fm.features.keys():

        @made.feature(method)
        def answer(*_):
            return None

    return made


@pytest_lsp.fixture(
    config=ClientServerConfig(
        client_factory=vscode, server_command=[sys.executable, "-m", "tritonforge", "serve", "--stdio"]
    ),
    scope="module",
    loop_scope="module",
)
async def client(lsp_client: LanguageClient, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vscode")
    (folder / ".git").mkdir()
    shutil.copy(EXAMPLE, folder)
    said = converters.get_converter().structure(CAPABILITIES, types.ClientCapabilities)
    lsp_client.folder = folder
    lsp_client.initialized = await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=said,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "w")],
            root_uri=folder.as_uri(),
            initialization_options={"target": "offline"},
        )
    )
    yield
    await lsp_client.shutdown_session()
    await lsp_client._server.wait()
    # What the server started may hold its pipes open for a moment longer, and the loop ends with this test.
    lsp_client._server._transport.close()


@pytest.fixture
def uri(client):
    name = (client.folder / "matmul.py").as_uri()
    text = EXAMPLE.read_text()
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(name, types.LanguageKind.Python, 1, text))
    )
    yield name
    client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(name)))


async def test_what_the_server_offers_is_what_the_protocol_page_says(client):
    can = client.initialized.capabilities
    assert can.position_encoding == types.PositionEncodingKind.Utf16
    assert can.text_document_sync.change == types.TextDocumentSyncKind.Incremental
    assert can.diagnostic_provider.identifier == "tritonforge"
    assert can.hover_provider
    assert can.code_lens_provider
    assert can.inlay_hint_provider
    assert can.code_action_provider.resolve_provider
    assert can.notebook_document_sync.notebook_selector[0].cells[0].language == "python"
    commands = {name.partition(".")[2] for name in can.execute_command_provider.commands}
    assert commands >= {
        "profileKernel", "optimizeKernel", "recordLaunches", "verifyCandidate", "applySuggestion", "cancelJob",
        "selectTarget", "writeLaunchSpec", "restart",
    }  # fmt: skip


async def test_diagnostics_are_pulled_and_unchanged_ones_not_sent_again(client, uri):
    document = types.TextDocumentIdentifier(uri)
    first = await client.text_document_diagnostic_async(types.DocumentDiagnosticParams(document))
    assert any(item.code == "TF203" and item.source == "TritonForge" for item in first.items)
    again = await client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(document, previous_result_id=first.result_id)
    )
    assert again == types.RelatedUnchangedDocumentDiagnosticReport(result_id=first.result_id)


async def test_hover_lens_hint_and_action_answer_together(client, uri):
    document = types.TextDocumentIdentifier(uri)
    at = types.Position(11, 8)
    where = types.Range(at, at)
    hover, lenses, hints, actions = await asyncio.gather(
        client.text_document_hover_async(types.HoverParams(document, at)),
        client.text_document_code_lens_async(types.CodeLensParams(document)),
        client.text_document_inlay_hint_async(types.InlayHintParams(document, where)),
        client.text_document_code_action_async(
            types.CodeActionParams(document, where, types.CodeActionContext([], [types.CodeActionKind.Refactor]))
        ),
    )
    assert "1 loop, 2 loads" in hover.contents.value
    assert [lens.command.title for lens in lenses][:2] == ["TritonForge: Profile", "Optimize"]
    assert not hints
    # (This client takes an action whose command is an object for a command.)
    assert [action.title for action in actions] == ["Optimize kernel matmul_kernel"]


@pytest.mark.triton
async def test_a_job_reports_through_progress_that_the_client_can_cancel(client, uri):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    argument = {"uri": uri, "kernel": "matmul_kernel", "allowRun": True}
    answer = await client.workspace_execute_command_async(
        types.ExecuteCommandParams("tritonforge.optimizeKernel", [argument])
    )
    token = answer["jobId"] if isinstance(answer, dict) else answer.jobId

    def reports():
        return client.progress_reports.get(token, [])

    async def until(condition):
        for _ in range(3000):
            if condition():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(reports())

    await until(lambda: any("compile" in (getattr(one, "message", "") or "") for one in reports()))
    assert isinstance(reports()[0], types.WorkDoneProgressBegin)
    assert reports()[0].cancellable
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await until(lambda: isinstance(reports()[-1], types.WorkDoneProgressEnd))
