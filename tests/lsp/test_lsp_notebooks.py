"""A kernel in one cell that is launched in another is one kernel, and everything about it lands in the right cell."""

import asyncio

import pytest
from in_process import InProcess
from lsp_client import LspError, capabilities

from tritonforge.domain.candidate import Suggestion, Trial
from tritonforge.lsp.facts import Offer
from tritonforge.lsp.notebooks import python_of
from tritonforge.rewrite.rules.launch_parameters import rewrite_launch

NOTEBOOK = "nb.ipynb"
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n%matplotlib inline\n!echo 'Größe 🚀'"
KERNEL = """\
@triton.jit
def scale_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    "🚀"; i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in range(0, 1):
        tl.store(o_ptr + i, 2 * tl.load(x_ptr + i))"""
HOST = """\
%%time
def scale(x):
    o = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), BLOCK=64)
    return o"""
RUN = "scale(torch.ones(1 << 20, device='cuda'))\nscale?"
CELLS = [IMPORTS, "# A title\n\nand text", KERNEL, HOST, "%%bash\nfor x in 1; do echo $x; done", RUN]
KINDS = [2, 1, 2, 2, 2, 2]


class Notebook:
    def __init__(self, client, cells=CELLS, kinds=KINDS, uri=None):
        self.client, self.version = client, 1
        self.uri = uri or client.uri(NOTEBOOK)
        path = self.uri.partition(":")[2]
        self.cells = [f"vscode-notebook-cell:{path}#C{n}" for n in range(len(cells))]
        listed = [{"kind": kind, "document": cell} for kind, cell in zip(kinds, self.cells, strict=True)]
        client.notify(
            "notebookDocument/didOpen",
            {
                "notebookDocument": {
                    "uri": self.uri, "notebookType": "jupyter-notebook", "version": 1, "cells": listed,
                },
                "cellTextDocuments": [self._item(c, t) for c, t, k in zip(self.cells, cells, kinds, strict=True) if k == 2],
            },
        )  # fmt: skip

    def _item(self, uri, text):
        self.client.texts[uri], self.client.versions[uri] = text, 1
        return {"uri": uri, "languageId": "python", "version": 1, "text": text}

    def change(self, **cells):
        self.version += 1
        self.client.notify(
            "notebookDocument/didChange",
            {"notebookDocument": {"uri": self.uri, "version": self.version}, "change": {"cells": cells}},
        )

    def write(self, number, text):
        uri = self.cells[number]
        self.client.texts[uri] = text
        self.client.versions[uri] += 1
        document = {"uri": uri, "version": self.client.versions[uri]}
        self.change(textContent=[{"document": document, "changes": [{"text": text}]}])

    def insert(self, at, text):
        uri = f"{self.cells[0]}-{self.version}"
        self.cells.insert(at, uri)
        array = {"start": at, "deleteCount": 0, "cells": [{"kind": 2, "document": uri}]}
        self.change(structure={"array": array, "didOpen": [self._item(uri, text)]})

    def remove(self, at):
        uri = self.cells.pop(at)
        self.change(structure={"array": {"start": at, "deleteCount": 1}, "didClose": [{"uri": uri}]})


def codes(client, cell):
    return [(d["code"], d["range"]["start"]["line"]) for d in client.pull(cell)["items"]]


def test_findings_lenses_hovers_and_actions_are_those_of_the_cell(start):
    client = start()
    notebook = Notebook(client)
    kernel, host = notebook.cells[2], notebook.cells[3]
    found = codes(client, kernel)
    assert found
    assert all(0 <= line <= 4 for _, line in found)
    for other in (0, 4, 5):
        assert codes(client, notebook.cells[other]) == []
    assert [lens["range"]["start"]["line"] for lens in client.lenses(kernel)] == [0, 0]
    assert client.lenses(kernel)[0]["command"]["arguments"] == [{"uri": notebook.uri, "kernel": "scale_kernel"}]
    assert client.lenses(host) == []
    text = client.hover(kernel, 1, 6)
    assert "1 launch site" in text
    assert client.hover(host, 3, 6) == text
    assert client.hover(notebook.cells[5], 0, 3) is None
    assert [a["title"] for a in client.actions(host, 3, only=["refactor"])] == ["Optimize kernel scale_kernel"]

    diagnostic = client.pull(kernel)["items"][-1]
    line = diagnostic["range"]["start"]["line"]
    ignore = next(a for a in client.actions(kernel, line, [diagnostic]) if a["title"].startswith("Ignore"))
    assert ignore["diagnostics"] == [diagnostic]
    (change,) = ignore["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": kernel, "version": 1}
    assert change["edits"][0]["range"]["start"] == {
        "line": line,
        "character": len(KERNEL.splitlines()[line].encode("utf-16-le")) // 2,
    }


def test_cells_may_be_put_in_taken_out_edited_and_closed(start):
    client = start()
    notebook = Notebook(client)
    before = codes(client, notebook.cells[2])
    notebook.insert(1, "x = 1\n" * 7)
    assert codes(client, notebook.cells[3]) == before
    notebook.write(1, "x = (")  # a half-typed cell above
    assert codes(client, notebook.cells[3]) == before
    notebook.remove(1)
    assert codes(client, notebook.cells[2]) == before
    client.wait(lambda m, p: m == "workspace/diagnostic/refresh")
    notebook.write(2, "# 🚀\n" + KERNEL)
    assert codes(client, notebook.cells[2]) == [(code, line + 1) for code, line in before]
    notebook.remove(3)
    assert "launch site" not in client.hover(notebook.cells[2], 2, 6)
    gone = {"notebookDocument": {"uri": notebook.uri}, "cellTextDocuments": [{"uri": cell} for cell in notebook.cells]}
    client.notify("notebookDocument/didClose", gone)
    assert codes(client, notebook.cells[2]) == []


def test_a_cell_that_is_split_takes_its_findings_along(start):
    client = start()
    notebook = Notebook(client)
    before = client.pull(notebook.cells[2])
    assert before["items"]
    head, tail = KERNEL.split("\n", 1)
    notebook.insert(3, tail)
    notebook.write(2, head)
    now = client.request(
        "textDocument/diagnostic",
        {"textDocument": {"uri": notebook.cells[2]}, "previousResultId": before["resultId"]},
    )
    assert (now["kind"], now["items"]) == ("full", [])
    assert codes(client, notebook.cells[3]) == [(d["code"], d["range"]["start"]["line"] - 1) for d in before["items"]]


@pytest.mark.parametrize(
    "cell", ["x = (\n    a\n    % n\n)\nassert (\n    a\n    != n\n)", "!ls\n%time 1\n  %matplotlib inline\nx?\n?x"]
)
def test_a_line_that_goes_on_with_an_operator_is_no_magic(cell):
    magic = cell.startswith("!")
    assert python_of(cell) == ("#ls\n#time 1\n  #matplotlib inline\n#?\n#x" if magic else cell)


def test_a_client_that_cannot_pull_gets_them_pushed_cell_by_cell(start):
    client = start(capabilities=capabilities(textDocument__diagnostic=None))
    notebook = Notebook(client)

    def pushed(cell, some):
        wanted = {"uri": cell, "version": 1}
        return client.wait(
            lambda m, p: (
                m == "textDocument/publishDiagnostics"
                and wanted.items() <= p.items()
                and bool(p["diagnostics"]) == some
            )
        )

    pushed(notebook.cells[2], some=True)
    pushed(notebook.cells[3], some=True)  # about the launch
    pushed(notebook.cells[4], some=False)


def test_an_untitled_notebook_is_analysed(start):
    client = start()
    notebook = Notebook(client, uri="untitled:Untitled-1.ipynb")
    assert codes(client, notebook.cells[2])
    with pytest.raises(LspError, match="Save it"):
        client.command("optimizeKernel", uri=notebook.uri, kernel="scale_kernel")


def test_the_edit_of_a_suggestion_lands_in_the_cell_that_launches(tmp_path):
    async def run():
        server = InProcess(tmp_path)
        server.uri = lambda name: (tmp_path / name).as_uri()
        server.texts, server.versions = {}, {}
        notebook = Notebook(server)
        state = server.server.state
        snapshot = state.snapshot(notebook.cells[2])
        assert snapshot.uri == notebook.uri
        (kernel,) = snapshot.analysis.kernels
        candidate = rewrite_launch(kernel, {snapshot.file: snapshot.text}, {"BLOCK": 1024})
        suggestion = Suggestion(Trial(candidate, None, None), 3.0, (2.0, 4.0), "predicted", "")
        state.offer(notebook.uri, Offer("s1", kernel, snapshot.text, suggestion))
        at = {"line": 3, "character": 4}
        params = {"textDocument": {"uri": notebook.cells[3]}, "range": {"start": at, "end": at}}
        actions = server.request("textDocument/codeAction", {**params, "context": {"diagnostics": []}})
        apply = next(one for one in actions if one["title"].startswith("Apply"))
        resolved = server.request("codeAction/resolve", apply)
        await server.close()
        return notebook, resolved["edit"]["documentChanges"]

    notebook, (change,) = asyncio.run(run())
    assert change["textDocument"] == {"uri": notebook.cells[3], "version": 1}
    lines = HOST.splitlines()
    for edit in change["edits"]:
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert lines[start["line"]][start["character"] : end["character"]] == "64"
        assert edit["newText"] == "1024"
    assert len(change["edits"]) == 2  # the constexpr and the grid


@pytest.mark.triton
def test_a_kernel_in_one_cell_launched_in_another_is_profiled_and_shown_where_it_is_defined(start):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    client = start({"target": "offline"})
    notebook = Notebook(client)
    kernel, host = notebook.cells[2], notebook.cells[3]
    at = {"uri": host, "position": {"line": 2, "character": 0}}
    outcome = client.outcome(client.command("profileKernel", **at, allowRun=True)["jobId"])
    assert "predicted" in outcome, (outcome, client.messages(), client.log)
    assert client.lenses(kernel)[0]["command"]["title"] == outcome
    assert client.lenses(host) == []
    assert "| Resources | " in client.hover(kernel, 1, 6)
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": kernel}, "range": whole})
    lines = KERNEL.splitlines()
    assert hints
    for hint in hints:
        line = lines[hint["position"]["line"]]
        assert hint["position"]["character"] == len(line.encode("utf-16-le")) // 2
    assert client.request("textDocument/inlayHint", {"textDocument": {"uri": host}, "range": whole}) == []
