"""The list of all kernels, jobs about several, and suggestions as a diff editor shows them."""

import contextlib
import sqlite3

import pytest
from lsp_client import LspError

from tritonforge.lsp.closed import ClosedFiles
from tritonforge.lsp.workspaces import Workspaces
from tritonforge.store.schema import APPLICATION_ID

UNTRUSTED = {"trusted": False}
NOTEBOOK = ("%time 1\nimport triton", "@triton.jit\ndef cell_kernel(p):\n    pass")


def listed(client):
    """All rows, by kernel: asked for until the answer is complete."""
    while not (answer := client.command("listKernels"))["complete"]:
        pass
    return {row["kernel"]: row for row in answer["kernels"]}


def text_at(text, where):
    return text.split("\n")[where["start"]["line"]][where["start"]["character"] : where["end"]["character"]]


def test_every_kernel_of_the_workspace_is_listed_with_its_place_and_none_is_run(start, folder):
    client = start(UNTRUSTED)
    rows = listed(client)
    assert {"matmul_kernel", "row_softmax_kernel"} <= set(rows)
    for name, row in rows.items():
        assert row["uri"] == client.uri(row["file"])
        assert text_at((folder / row["file"]).read_text(), row["range"]) == name
        assert (row["known"], row["suggestion"], row["job"]) == (None, None, None)
    assert not (folder / ".tritonforge").exists()


def test_an_open_document_counts_as_it_stands_and_a_changed_file_is_read_again(start, folder):
    client = start(UNTRUSTED)
    before = listed(client)["matmul_kernel"]["range"]["start"]["line"]
    uri = client.open("matmul.py")
    client.change(uri, "# ä 🔥\n" + client.texts[uri])
    assert listed(client)["matmul_kernel"]["range"]["start"]["line"] == before + 1

    new = folder / "new.py"
    new.write_text("import triton\n\n\n@triton.jit\ndef fresh_kernel(p):\n    pass\n")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": new.as_uri(), "type": 1}]})
    assert listed(client)["fresh_kernel"]["range"]["start"] == {"line": 4, "character": 4}
    new.unlink()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": new.as_uri(), "type": 3}]})
    assert "fresh_kernel" not in listed(client)


def test_a_kernel_of_a_notebook_is_listed_in_its_cell(start, folder):
    client = start(UNTRUSTED)
    uri = (folder / "play.ipynb").as_uri()
    cells = {f"vscode-notebook-cell:/play.ipynb#{n}": text for n, text in enumerate(NOTEBOOK)}
    client.notify(
        "notebookDocument/didOpen",
        {
            "notebookDocument": {
                "uri": uri, "notebookType": "jupyter-notebook", "version": 1,
                "cells": [{"kind": 2, "document": cell} for cell in cells],
            },
            "cellTextDocuments": [
                {"uri": cell, "languageId": "python", "version": 1, "text": text} for cell, text in cells.items()
            ],
        },
    )  # fmt: skip
    row = listed(client)["cell_kernel"]
    assert (row["uri"], row["cell"], row["file"]) == (uri, list(cells)[1], "play.ipynb")
    assert text_at(NOTEBOOK[1], row["range"]) == "cell_kernel"


def test_only_the_folder_that_is_open_is_listed_and_each_of_several(start, folder):
    for name in ("one", "two", "other"):
        (folder / name).mkdir()
        (folder / name / "kernel.py").write_text(f"import triton\n@triton.jit\ndef {name}_kernel(p):\n    pass\n")
    client = start(initialize=False)
    folders = [{"uri": client.uri(name), "name": name} for name in ("one", "two")]
    client.initialize(UNTRUSTED, workspaceFolders=folders)
    assert set(listed(client)) == {"one_kernel", "two_kernel"}


def test_listing_can_be_cancelled_and_a_file_that_is_no_python_loses_nothing_else(start, folder):
    (folder / "broken.py").write_bytes(b"import triton\n@triton.jit\n\xff\xfe")
    (folder / "half.py").write_text("import triton\n@triton.jit\ndef half(\n")
    client = start(UNTRUSTED)
    number = client.begin("workspace/executeCommand", {"command": "tritonforge.listKernels", "arguments": [{}]})
    client.notify("$/cancelRequest", {"id": number})
    with contextlib.suppress(LspError):  # it may have been answered before the cancellation arrived
        client.end(number)
    assert "matmul_kernel" in listed(client)


def test_a_store_is_not_opened_before_the_workspace_is_trusted_and_one_of_a_newer_version_hides_no_kernel(
    start, folder
):
    (folder / ".tritonforge").mkdir()
    path = folder / ".tritonforge" / "store.sqlite3"
    path.write_bytes(b"no database")
    client = start(UNTRUSTED)
    assert "matmul_kernel" in listed(client)
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == {path.name: b"no database"}
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA user_version = 9999")
        store.execute("CREATE TABLE later (x)")
        store.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    client = start({"target": "offline"})
    assert listed(client)["matmul_kernel"]["known"] is None
    assert client.command("describeTarget")["problem"] is None


def test_a_file_that_is_not_open_is_analysed_once_as_long_as_it_stays_as_it_is(folder):
    files, path = ClosedFiles(Workspaces(pytest.fail), "utf-16"), folder / "matmul.py"
    first = files.snapshot(path.as_uri())
    assert first.kernel("matmul_kernel") is not None
    assert files.snapshot(path.as_uri()) is first
    path.write_text("# one line more\n" + first.text)
    assert files.snapshot(path.as_uri()).kernel("matmul_kernel").range.start.line == (
        first.kernel("matmul_kernel").range.start.line + 1
    )
    path.unlink()
    assert files.snapshot(path.as_uri()) is None


def test_wrong_arguments_are_answered_with_a_sentence(start):
    client = start(UNTRUSTED)
    with pytest.raises(LspError, match="not trusted"):
        client.command("profileKernels", kernels=[{"uri": client.uri("matmul.py"), "kernel": "matmul_kernel"}])
    with pytest.raises(LspError, match="not trusted"):
        client.command("doctor")
    with pytest.raises(LspError, match="no such suggestion for matmul_kernel"):
        client.command("previewSuggestion", uri=client.uri("matmul.py"), kernel="matmul_kernel")
    with pytest.raises(LspError, match="no such document"):
        client.command("previewSuggestion", uri=client.uri("nowhere.py"), kernel="matmul_kernel")
    assert client.command("discardSuggestion", uri=client.uri("matmul.py"), kernel="x") == {"discarded": False}


def test_the_kind_of_each_target_is_told_without_starting_a_worker(start):
    client = start({"target": "offline"})
    chosen = client.command("selectTarget")
    assert set(chosen["details"]) == set(chosen["targets"])
    assert "without a GPU" in chosen["details"]["offline"]
    described = client.command("describeTarget")
    assert described["kind"] == "offline"
    assert described["problem"] is None
    assert len(client.processes()) == 1


def test_a_target_that_does_not_exist_is_a_problem_and_no_failure(start):
    client = start({"target": "nowhere"})
    assert "nowhere" in client.command("describeTarget")["problem"]


@pytest.mark.triton
def test_closed_files_are_optimised_in_one_job_compared_and_discarded_and_remembered_by_the_next_server(start, folder):
    pytest.importorskip("triton")
    client = start({"target": "offline", "previews": True})
    one = {"uri": client.uri("scale_shift.py"), "kernel": "scale_shift_kernel"}
    assert listed(client)["scale_shift_kernel"]["launches"] == "unknown"
    gone = {"uri": client.uri("scale_shift.py"), "kernel": "gone_kernel"}
    with pytest.raises(LspError, match="list called 'kernels'"):
        client.command("optimizeKernels", kernels=[])

    job = client.command("optimizeKernels", kernels=[gone, one], allowRun=True)["jobId"]
    begun = client.wait(lambda m, p: m == "$/progress" and p["value"]["kind"] == "begin")
    assert begun["value"]["title"] == "Optimize 2 kernels"
    outcome = client.outcome(job)
    assert outcome.startswith(
        "1 kernel searched, 1 with a verified faster version. Not done: gone_kernel: it is not there"
    )
    reports = [p["value"]["message"] for p in client.all("$/progress") if p["value"]["kind"] == "report"]
    assert any(message.startswith("2/2 · scale_shift_kernel · ") for message in reports)
    assert not client.all("window/showMessageRequest")  # the click on "all" was the only question

    row = listed(client)["scale_shift_kernel"]
    assert row["known"]["provenance"] == "predicted"
    assert row["known"]["bottleneck"] == "block-too-small"
    assert row["known"]["stale"] is False
    assert row["known"]["timeUs"] > 0
    assert row["launches"] == "known"
    offered = client.command("previewSuggestion", **one, suggestion=row["suggestion"]["suggestion"])
    assert "faster (predicted), verified on" in offered["summary"]
    before = (folder / "scale_shift.py").read_text()
    assert offered["text"] != before

    uri = client.open("scale_shift.py")
    client.command("applySuggestion", **one)
    client.wait(lambda m, p: m == "workspace/applyEdit")
    client.until(lambda: client.texts[uri] == offered["text"])
    client.change(uri, before.replace("* scale + y", "* scale - y"))
    assert client.command("previewSuggestion", **one)["text"] is None  # what was verified is not there any more
    row = listed(client)["scale_shift_kernel"]
    assert (row["known"]["stale"], row["suggestion"]) == (True, None)
    client.change(uri, before)
    assert client.command("discardSuggestion", **one, suggestion=offered["suggestion"]) == {"discarded": True}
    assert listed(client)["scale_shift_kernel"]["suggestion"] is None
    assert not any("Apply" in lens["command"]["title"] for lens in client.lenses(uri))
    assert client.shut_down() == 0

    client = start({"target": "offline"})
    row = listed(client)["scale_shift_kernel"]
    assert row["known"]["time"]
    assert row["known"]["at"]
    assert row["known"]["stale"] is False
