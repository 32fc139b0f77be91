"""Odd places, odd clients, and the end of a process: the server goes on, or ends with all it began."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from in_process import InProcess
from lsp_client import LspError

OFFLINE = {"target": "offline"}
KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK); "🚀é"; a = tl.load(x + offs, mask=offs < n); tl.store(out, tl.sum(a))
"""


def codes(client, uri):
    return {d["code"] for d in client.pull(uri)["items"]}


# ------------------------------------------------------------------ places
def test_each_root_has_its_own_settings_and_a_file_outside_any_root_the_defaults(start, folder, tmp_path):
    for name, ignored in (("one", "TF502"), ("two", "TF4")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.py").write_text(KERNEL)
        (tmp_path / name / "tritonforge.toml").write_text(f'ignore = ["{ignored}"]\n')
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "k.py").write_text(KERNEL)
    client = start(initialize=False)
    roots = [tmp_path / "one", tmp_path / "two"]
    client.initialize(workspaceFolders=[{"uri": root.as_uri(), "name": root.name} for root in roots])
    found = {}
    for name in ("one", "two", "else"):
        uri = (tmp_path / name / "k.py").as_uri()
        client.open(uri, KERNEL)
        found[name] = codes(client, uri)
    assert "TF502" in found["else"]
    assert found["one"] == found["else"] - {"TF502"}
    assert found["two"] == {code for code in found["else"] if not code.startswith("TF4")}
    # A root that is added later counts from then on.
    (tmp_path / "else" / "tritonforge.toml").write_text('ignore = ["TF502"]\n')
    added = {"added": [{"uri": (tmp_path / "else").as_uri(), "name": "else"}], "removed": []}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": added})
    assert "TF502" not in codes(client, (tmp_path / "else" / "k.py").as_uri())


@pytest.mark.parametrize(
    "uri", ["file:///c%3A/Users/x%20y/k.py", "file:///C:/Users/x%20y/k.py", "file://host/share/k.py"]
)
def test_windows_paths_are_analysed_and_every_spelling_of_them_is_one_document(tmp_path, uri):
    async def run():
        server = InProcess(tmp_path)
        document = {"uri": uri, "languageId": "python", "version": 1, "text": KERNEL}
        server.notify("textDocument/didOpen", {"textDocument": document})
        spelled = [uri, *([] if "host" in uri else ["file:///c%3A/Users/x%20y/k.py", "file:///c:/Users/x y/k.py"])]
        for one in spelled:
            about = {"textDocument": {"uri": one}}
            assert "TF502" in {d["code"] for d in server.request("textDocument/diagnostic", about)["items"]}
            lens = server.request("textDocument/codeLens", about)[0]
            assert lens["command"]["arguments"][0]["uri"] == uri, "as it was opened"
        edit = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 5, "character": 0}}, "text": ""}
        changed = {"textDocument": {"uri": spelled[-1], "version": 2}, "contentChanges": [edit]}
        server.notify("textDocument/didChange", changed)
        assert server.text(uri).startswith("def kernel(")
        server.notify("textDocument/didClose", {"textDocument": {"uri": spelled[-1]}})
        assert server.text(uri) is None
        await server.close()

    asyncio.run(run())
    assert not Path("c:").exists(), "nothing is written where no such place is"


def test_a_link_to_a_file_is_that_file_where_the_editor_has_it(start, folder, tmp_path):
    link = folder / "linked.py"
    (tmp_path / "real.py").write_text(KERNEL)
    link.symlink_to(tmp_path / "real.py")
    client = start({"settings": {"per-file-ignores": {"linked.py": ["TF502"]}}})
    uri = client.open("linked.py")
    assert "TF502" not in codes(client, uri), "settings speak of the name in the workspace"
    assert client.lenses(uri)


# ----------------------------------------------------------------- clients
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"textDocument": {}, "workspace": {}, "window": {}, "general": {}},
        {"general": {"positionEncodings": ["utf-64"]}},
        {"textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["x", 3]}}}}},
        {"textDocument": {"diagnostic": {"tomorrow": True}, "hover": {"contentFormat": ["html"]}}},
        {"window": {"workDoneProgress": "perhaps"}, "experimental": {"anything": [1, None]}},
    ],
)
def test_a_client_that_can_little_or_says_odd_things_is_served(folder, said):
    async def run():
        server = InProcess(folder, capabilities=said)
        uri = (folder / "matmul.py").as_uri()
        text = (folder / "matmul.py").read_text()
        document = {"uri": uri, "languageId": "snake", "version": 1, "text": text}
        server.notify("textDocument/didOpen", {"textDocument": document})
        about = {"textDocument": {"uri": uri}}
        if "diagnostic" in said.get("textDocument", {}):
            assert server.request("textDocument/diagnostic", about)["items"]
        else:
            pushed = [m for m in server.wire.messages if m.get("method") == "textDocument/publishDiagnostics"]
            assert pushed[0]["params"]["diagnostics"]
        at = {"line": 11, "character": 8}
        assert "matmul" in server.request("textDocument/hover", {**about, "position": at})["contents"]["value"]
        asked = {**about, "range": {"start": at, "end": at}, "context": {"diagnostics": []}}
        for action in server.request("textDocument/codeAction", asked):
            literal = "codeActionLiteralSupport" in said.get("textDocument", {}).get("codeAction", {})
            assert isinstance(action["command"], dict if literal else str)
        await server.close()

    asyncio.run(run())


def test_a_question_that_is_cancelled_while_it_waits_is_answered_so(start):
    client = start()
    uri = client.open("matmul.py")
    about = {"textDocument": {"uri": uri}}
    client.pull(uri)
    numbers = []
    # One write, so that the cancellations arrive with what they cancel.
    send, parts = client.send, []
    client.send = parts.append
    for n in range(5):
        numbers.append(client.begin("textDocument/codeLens", about))
        if n % 2:
            client.notify("$/cancelRequest", {"id": numbers[-1]})
    client.send = send
    bodies = [json.dumps({"jsonrpc": "2.0", **part}).encode() for part in parts]
    client.process.stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies))
    client.process.stdin.flush()
    for n, number in enumerate(numbers):
        if n % 2:
            with pytest.raises(LspError) as error:
                client.end(number)
            assert error.value.code == -32800
        else:
            assert client.end(number)


def test_questions_sent_ahead_of_keys_are_answered_for_the_text_they_find(start):
    client = start()
    uri = client.open("matmul.py")
    original = client.texts[uri]
    asked = []
    for n in range(30):
        client.change(uri, "\n" * n + original)
        asked.append(client.begin("textDocument/diagnostic", {"textDocument": {"uri": uri}}))
    answers = [client.end(number) for number in asked]
    lines = [next(d for d in a["items"] if d["code"] == "TF203")["range"]["start"]["line"] for a in answers]
    assert lines == sorted(lines)
    assert lines[-1] == 32 + 29


# --------------------------------------------------------------- processes
@pytest.mark.triton
class TestJobs:
    @pytest.fixture(autouse=True)
    def _needs_triton(self):
        pytest.importorskip("triton", reason="needs torch and triton in this environment")

    @staticmethod
    def searching(client, uri, kernel="matmul_kernel"):
        job = client.command("optimizeKernel", uri=uri, kernel=kernel, allowRun=True)["jobId"]
        client.wait(
            lambda m, p: m == "$/progress" and p["token"] == job and "compile" in p["value"].get("message", ""), 150
        )
        return job

    def test_a_killed_worker_is_said_and_the_next_job_gets_a_new_one(self, start):
        client = start(OFFLINE)
        uri = client.open("matmul.py")
        job = self.searching(client, uri)
        for pid in client.processes():
            if pid != client.process.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        client.outcome(job, 60)
        assert "predicted" in client.outcome(client.command("profileKernel", uri=uri, kernel="matmul_kernel")["jobId"])

    def test_closing_a_file_ends_its_jobs_and_lets_the_others_go_on(self, start):
        client = start(OFFLINE)
        closed, kept = client.open("matmul.py"), client.open("scale_shift.py")
        first = self.searching(client, closed)
        second = client.command("profileKernel", uri=kept, allowRun=True)["jobId"]
        client.notify("textDocument/didClose", {"textDocument": {"uri": closed}})
        client.outcome(first, 30)
        assert "predicted" in client.outcome(second)
        assert client.messages() == []

    def test_a_file_that_is_closed_and_opened_again_at_once_keeps_its_jobs(self, start):
        client = start(OFFLINE)
        uri = client.open("scale_shift.py")
        job = client.command("profileKernel", uri=uri, allowRun=True)["jobId"]
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        client.open("scale_shift.py")
        assert "predicted" in client.outcome(job)
        assert "predicted" in client.lenses(uri)[0]["command"]["title"]

    def test_a_restarted_client_finds_what_was_recorded(self, start, folder):
        client = start(OFFLINE)
        uri = client.open("scale_shift.py")
        client.outcome(client.command("recordLaunches", uri=uri)["jobId"])
        os.kill(client.process.pid, signal.SIGKILL)
        client.process.wait(10)
        client.assert_nothing_left(10)
        again = start(OFFLINE)
        again.open("scale_shift.py")
        job = again.command("profileKernel", uri=uri)["jobId"]  # nothing has to be run or asked
        assert "predicted" in again.outcome(job)
        assert again.all("window/showMessageRequest") == []
